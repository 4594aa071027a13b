"""Log detector: reads log lines of this host and derives conditions and Events.

    sources (kmsg, journal, files)  ->  Line  ->  watch()  ->  ConditionReport, EventReport

`watch` is pure: it takes program, state, line and time, and returns state and reports. The program
comes from this package's packs (packs/*.toml) and from node-problem-detector's configuration files.
"""
