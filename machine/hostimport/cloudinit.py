"""User data for cloud-init that runs the join script at the first boot. It contains the token.

Besides `merge_how` it has exactly two keys, so that other first-boot agents can run it:
`write_files`, each with path, permissions and content, then `runcmd`, each a list of arguments.
"""

import io
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from machine.hostimport.join_settings import NO_DOWNLOAD, Download, Joining
from machine.hostimport.script import join_script

FOLDER = "/run/kubenode-join"
SCRIPT = f"{FOLDER}/join.sh"
TOKEN = f"{FOLDER}/token"
KINDS = {"#cloud-config": "cloud-config", "#!": "x-shellscript", "#include": "x-include-url"}
"""First characters of a class's own user data, and the text/ subtype by which cloud-init accepts
it.
"""


def cloud_config(joining: Joining, token: str, download: Download = NO_DOWNLOAD) -> str:
    """Return a `#cloud-config` document. Its lists are appended to those of other documents."""
    content = {
        "merge_how": [
            {"name": "list", "settings": ["append"]},
            {"name": "dict", "settings": ["no_replace", "recurse_list"]},
        ],
        "write_files": [
            _file(SCRIPT, join_script(joining, download), "0700"),
            _file(TOKEN, f"{token}\n", "0600"),
        ],
        "runcmd": [["sh", SCRIPT, "--token-file", TOKEN], ["rm", "-rf", FOLDER]],
    }
    text = io.StringIO()
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 4096
    yaml.dump(content, text)
    return f"#cloud-config\n{text.getvalue()}"


def user_data(joining: Joining, token: str, download: Download = NO_DOWNLOAD, own: str = "") -> str:
    """Return the user data of a new instance.

    own: user data of the class, which runs first; "" for none. Raises ValueError if the type of
        `own` is unknown.
    """
    ours = cloud_config(joining, token, download)
    if not own.strip():
        return ours
    parts = MIMEMultipart("mixed", boundary="==kubenode==")
    parts.attach(MIMEText(own, _kind(own), "utf-8"))
    parts.attach(MIMEText(ours, "cloud-config", "utf-8"))
    return parts.as_string()


def _kind(own: str) -> str:
    for beginning, kind in KINDS.items():
        if own.startswith(beginning):
            return kind
    raise ValueError(
        f"user data begins with none of {', '.join(KINDS)}: cloud-init would not know what it is"
    )


def _file(path: str, content: str, mode: str) -> dict[str, str]:
    return {"path": path, "permissions": mode, "content": LiteralScalarString(content)}
