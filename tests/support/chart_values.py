"""Values of the chart for the choices that matter."""

from support.helm import Object

EVERYTHING: Object = {
    "image": {"repository": "images.example/kubenode", "digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "providersSecret": "providers",
    "remedy": {
        "replicas": 3,
        "settings": {"webhook_max_matching": "5%", "request_rate": 200},
        "hostDoctor": {"enabled": True, "tokensSecret": "host-doctor-tokens"},
        "receiversSecret": "receivers",
        "stream": {
            "url": "https://insight.example/v1/events",
            "tokenSecret": "t",
            "caSecret": "ca",
        },
        "nodeSelector": {"pool": "control"},
        "tolerations": [{"key": "control", "operator": "Exists"}],
    },
    "defender": {
        "dashboard": {"enabled": True, "keySecret": "dashboard-key"},
        "redis": {"url": "rediss://redis.example:6379", "passwordSecret": "r", "caSecret": "ca"},
    },
    "autoscaler": {"enabled": True, "replicas": 2, "certificateSecret": "autoscaler-tls"},
    "insight": {
        "enabled": True,
        "settings": {"retention_days": 90},
        "tokensSecret": "insight-tokens",
        "certificateSecret": "insight-tls",
    },
    "captain": {
        "enabled": True,
        "settings": {"member_probe_seconds": 30},
        "dashboard": {
            "enabled": True,
            "keySecret": "captain-key",
            "certificateSecret": "captain-tls",
        },
    },
    "agent": {"enabled": True, "config": 'log_level = "debug"\n'},
    "rules": {"packs": ["storage", "gpu"], "mode": "DryRun"},
    "ruleAuthors": {
        "enabled": True,
        "grants": {
            "team-a": {"groups": ["team-a"], "modes": ["DryRun"], "steps": ["*"], "nodes": ["*"]},
            "team-b": {
                "groups": ["team-b", "team-b-leads"],
                "modes": ["DryRun", "Enforce"],
                "steps": ["cordon", "uncordon", "migrate", "agent/RestartUnit", "notify"],
                "nodes": ["pool=b"],
            },
        },
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "runbookBase": "https://runbooks.example/"},
    "dashboards": {"enabled": True},
}
LITTLE: Object = {
    "remedy": {"replicas": 1, "webhook": {"enabled": False}},
    "defender": {"replicas": 1, "guard": {"enabled": False}},
    "machine": {"enabled": False},
    "crds": {"upgrade": False},
    "networkPolicy": {"enabled": False},
}
MACHINES_ONLY: Object = {"remedy": {"enabled": False}, "machine": {"webhook": {"enabled": False}}}
CERTIFICATES: Object = {
    "certManager": {"enabled": True, "issuer": {"name": "ours"}},
    "remedy": {"hostDoctor": {"enabled": True, "tokensSecret": "host-doctor-tokens"}},
}
CHOICES: dict[str, Object] = {
    "default": {},
    "everything": EVERYTHING,
    "little": LITTLE,
    "machines": MACHINES_ONLY,
    "cert-manager": CERTIFICATES,
}
