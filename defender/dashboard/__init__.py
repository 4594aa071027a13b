"""The dashboard of Kube Defender: what is held and why, and what a person may do about it.

- standing, fleet, attention, budgets, …: pure; compute view models from what is watched.
- scene: the data of the views, updated with every change.
- render: view models as HTML, by Jinja2 templates that escape everything.
- live: the same view models, sent as they change (server-sent events).
- people, sealing, attempts: authentication, authorization and login limits.
- acts: writes of people: pauses of policies, approvals of jobs.
- app: the Starlette application.

A page has the same content with and without JavaScript; with it, parts are replaced as they change.
"""
