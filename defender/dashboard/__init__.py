"""The dashboard of Kube Defender: what is held and why, and what a person may do about it.

    standing, fleet, attention, budgets, …   pure: what is watched, as plain view models
    scene       what the views read, kept up to date with every change
    render      view models as HTML, by Jinja2 templates that escape everything
    live        the same view models again, sent as they change (server-sent events)
    people, sealing, attempts                who asks, and what they may
    acts        the writes of people: pauses of policies, approvals of jobs
    app         all of it as a Starlette application

A page is the same with JavaScript and without; with it, its parts are replaced as they change.
"""
