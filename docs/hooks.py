"""What the site has beside the pages of this folder.

The first page is the README; contributing and changes come from the root of the repository too.
Files elsewhere in the repository that a page links to, as rules and permissions, lie under
`source/`; of a folder there is a page that lists it. Links are written for readers of the
repository, so this is where they are turned.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/decisions/README.md": "decisions/index.md",
}
"""Pages of the site that lie elsewhere in the repository, by their path there."""
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[#)])")
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


BOOSTS = {
    "runbooks/": 0.1,
    "source/": 0.1,
    "change": 0.1,
    "decisions/": 0.2,
    "explanation/": 0.3,
    "reference/rule-tests": 4.0,  # the one guide among the references
    "reference/": 0.3,
}
"""Weight of pages in the search, by the beginning of their path: guides come first."""
GUIDE_BOOST = 2.0


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill what is listed by its files: decisions, runbooks by the pack of their rule, and at the
    ends of their sections the pages that mkdocs.yml does not name.
    """
    assert config.nav is not None
    named = set(re.findall(r"[a-z0-9/-]+\.md", str(config.nav))) | set(FROM_ROOT.values())
    for section in config.nav:
        for name, pattern in (("How to", "*.md"), ("Reference", "reference/*.md")):
            section.get(name, []).extend(uri for uri in pages(pattern) if uri not in named)
        for entry in section.get("Explanation", ()):
            if "Decisions" in entry:
                entry["Decisions"] = ["decisions/index.md", *pages("decisions/0*.md")]
        if "Runbooks" in section:
            section["Runbooks"] = [
                {"All": "runbooks/index.md"},
                {"Alerts": ["runbooks/alerts/index.md", *pages("runbooks/alerts/*.md")]},
                *({pack: rules} for pack, rules in by_pack().items()),
            ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside of this folder."""
    for path, uri in FROM_ROOT.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text()))
    files.append(File.generated(config, "runbooks/index.md", content=runbooks()))
    files.append(File.generated(config, "runbooks/alerts/index.md", content=alerts()))
    seen: set[str] = set()
    for file in list(files.documentation_pages()):
        for path in outside(file.content_string, repository_path(file.src_uri)):
            add(path, files, config, seen)
    return files


def boost(uri: str) -> float:
    """Return the weight of a page in the search."""
    listed = (weight for start, weight in BOOSTS.items() if uri.startswith(start))
    return next(listed, GUIDE_BOOST)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links of the repository into links of the site, and weigh the page for the search."""
    page.meta["search"] = {"boost": boost(page.file.src_uri)}
    here = repository_path(page.file.src_uri)
    if page.file.src_uri.startswith("source/") and not (ROOT / here).is_file():
        return markdown  # the list of a folder, made by `add`
    folder = posixpath.dirname(page.file.src_uri)

    def turned(link: re.Match[str]) -> str:
        return posixpath.relpath(site_path(target(link[0], here)), folder or ".")

    def prose(text: str) -> str:
        return LINK.sub(lambda link: link[0] if foreign(link[0]) else turned(link), text)

    return "".join(part if part.startswith("`") else prose(part) for part in CODE.split(markdown))


def repository_path(uri: str) -> str:
    """Where in the repository the page of the site comes from."""
    if uri.startswith("source/"):
        return uri.removeprefix("source/")
    return next((path for path, page in FROM_ROOT.items() if page == uri), f"docs/{uri}")


def target(link: str, here: str) -> str:
    """The path in the repository that a page at `here` links to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), link))


def site_path(path: str) -> str:
    """Where the site has the file or folder of the repository."""
    if path in FROM_ROOT:
        return FROM_ROOT[path]
    inside = path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}"
    return f"{inside}/index.md" if (ROOT / path).is_dir() else inside


def foreign(link: str) -> bool:
    """Whether the link leaves the repository."""
    return "://" in link or link.startswith("mailto:")


def outside(markdown: str, here: str) -> list[str]:
    """What of the repository outside of this folder the page links to."""
    prose = (part for part in CODE.split(markdown) if not part.startswith("`"))
    links = (link for text in prose for link in LINK.findall(text) if not foreign(link))
    paths = (target(link, here) for link in links)
    return [path for path in paths if not path.startswith("docs/") and path not in FROM_ROOT]


def add(path: str, files: Files, config: MkDocsConfig, seen: set[str]) -> None:
    """Add a file, or a page that lists a folder and what is in it; what is missing mkdocs tells."""
    source = ROOT / path
    if path in seen or not source.exists():
        return
    seen.add(path)
    if source.is_file():
        files.append(File.generated(config, f"source/{path}", abs_src_path=str(source)))
        return
    inside = sorted(file for file in source.rglob("*") if file.is_file())
    names = [file.relative_to(source).as_posix() for file in inside]
    listing = "\n".join(f"- [{name}]({name})" for name in names)
    files.append(
        File.generated(config, f"source/{path}/index.md", content=f"# {path}\n\n{listing}\n")
    )
    for file in inside:
        add(file.relative_to(ROOT).as_posix(), files, config, seen)


def pages(pattern: str) -> list[str]:
    """The pages of this folder that match, as the site names them."""
    folder = ROOT / "docs"
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern))


def by_pack() -> dict[str, list[str]]:
    """The runbooks of the library's rules, by the folder of the rule."""
    packs: dict[str, list[str]] = {}
    for rule in sorted((ROOT / "rules/library").glob("*/*.yaml")):
        if (ROOT / f"docs/runbooks/{rule.stem}.md").exists():
            packs.setdefault(rule.parent.name, []).append(f"runbooks/{rule.stem}.md")
    return packs


def alerts() -> str:
    """The page that lists the runbooks of alerts."""
    names = [Path(uri).stem for uri in pages("runbooks/alerts/*.md")]
    return "\n".join(["# Alerts", "", *(f"- [{name}]({name}.md)" for name in names)]) + "\n"


def runbooks() -> str:
    """The page that lists the runbooks."""
    listed = {"alerts": pages("runbooks/alerts/*.md")} | by_pack()
    lines = ["# Runbooks", "", "One page for each rule of the library and for each alert."]
    for name, members in listed.items():
        lines += ["", f"## {name}", ""]
        lines += [f"- [{Path(uri).stem}]({uri.removeprefix('runbooks/')})" for uri in members]
    return "\n".join(lines) + "\n"
