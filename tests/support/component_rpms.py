"""RPM packages for a host with dnf, and a repository of them, both made on the host itself.

Debian's rpm knows of no package on the host. What every package needs, the shell that its scripts
are for, a package of ours says it has.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from support.component_packages import REPOSITORY, SERVICE, STARTS
from support.hosts import Host

BUILDS = "/opt/rpms"
SPEC = """Name: {name}
Version: {version}
Release: 1
Summary: made in a test
License: none
BuildArch: noarch
AutoReqProv: no
{relations}
%description
Made in a test.
{more}"""
PROGRAM = """%install
mkdir -p %{{buildroot}}/usr/bin %{{buildroot}}/usr/lib/systemd/system
cp {builds}/{name}.sh %{{buildroot}}/usr/bin/{name}
cp {builds}/{name}-{version}.service %{{buildroot}}/usr/lib/systemd/system/{name}.service
%post
{starts}
%preun
if [ "$1" = 0 ]; then systemctl disable --now {name}.service; fi
%postun
systemctl daemon-reload
%files
%attr(755, root, root) /usr/bin/{name}
/usr/lib/systemd/system/{name}.service
"""
SHELL = "Provides: /bin/sh"
REPO = f"""[tests]
name=tests
baseurl=file://{REPOSITORY}
gpgcheck=0
"""


def serve_rpms(
    host: Host,
    packages: Sequence[tuple[str, str]] = (),
    needs: Mapping[str, str] = MappingProxyType({}),
    provides: Sequence[str] = (),
) -> None:
    """Make (name, version) the one repository that the host's dnf knows.

    needs  which other package one of this name requires
    provides  capabilities of the host that one more package claims to provide
    """
    host.write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")  # Debian keeps one in each home
    host.write("/etc/dnf/plugins/local.conf", "[main]\nenabled = false\n")
    host.write("/etc/dnf/vars/releasever", "0\n")
    host.write("/etc/yum.repos.d/tests.repo", REPO)
    specs = [f"{BUILDS}/shell.spec"]
    relations = "\n".join([SHELL, *(f"Provides: {each}" for each in provides)])
    host.write(
        specs[0], SPEC.format(name="shell", version="1", relations=relations, more="%files\n")
    )
    for name, version in packages:
        host.write(f"{BUILDS}/{name}.sh", "#!/bin/sh\nexec sleep infinity\n")
        service = SERVICE.format(name=name, version=version)
        host.write(f"{BUILDS}/{name}-{version}.service", service)
        starts = STARTS.removeprefix("#!/bin/sh\n").format(name=name, version=version)
        more = PROGRAM.format(name=name, version=version, builds=BUILDS, starts=starts)
        relations = f"Requires: {needs[name]}" if name in needs else ""
        spec = SPEC.format(name=name, version=version, relations=relations, more=more)
        specs.append(f"{BUILDS}/{name}-{version}.spec")
        host.write(specs[-1], spec)
    host.run("rpmbuild", "-bb", "--quiet", f"--define=_rpmdir {REPOSITORY}", *specs)
    host.run("createrepo_c", "--quiet", REPOSITORY)
