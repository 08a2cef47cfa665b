"""The real Slurm for the tests of this folder: munged, slurmctld, and a slurmd in a network and UTS namespace for each host."""

import os
import shutil
import subprocess

from network import Network, hide, missing_namespaces
from runs import wait_until

PROGRAMS = {name: shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("munged", "slurmctld", "slurmd", "salloc")}
SALLOC = PROGRAMS["salloc"]
CONFIGURATION = """
ClusterName=braid
SlurmctldHost=control({control})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/control.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/control.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
MaxArraySize=3
KillWait=5
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class SlurmNetwork(Network):
    """`hidden`: a folder that the last host does not see."""

    def __init__(self, folder, hosts, hidden=None):
        super().__init__(hosts)
        self.folder = folder
        # The words that run a command of Slurm's as on the controller's host, which is asked for by its name.
        self.before = ["ip", "netns", "exec", self.command, "unshare", "--uts", "sh", "-c", 'hostname control; exec "$@"', "sh"]
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o400)
        nodes = [f"NodeName=node{i} NodeAddr={self.address(i)} CPUs=4 State=UNKNOWN" for i in range(1, hosts + 1)]
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(control=self.address(100), folder=folder, nodes="\n".join(nodes)))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        # Each host has a folder of its own there: PMIx's files have the same names on all.
        (folder / "pmix").mkdir()
        (folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={folder}/pmix\n")
        self.start(self.command, PROGRAMS["munged"], "--foreground", "--force", f"--key-file={folder}/munge.key",
                   f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log",
                   f"--seed-file={folder}/munge.seed", stderr=subprocess.DEVNULL)
        wait_until(lambda: (folder / "munge.socket").exists())
        self.start_named("control", self.command, PROGRAMS["slurmctld"], "-D")
        for i in range(1, hosts + 1):
            self.start_slurmd(i, hidden if i == hosts else None)

    def start_slurmd(self, i, hidden=None):
        """Of host i: 1, 2, ..."""
        self.start_named(f"node{i}", self.hosts[i - 1], PROGRAMS["slurmd"], "-D", "-N", f"node{i}", hidden=hidden)

    def start_named(self, name, namespace, *words, hidden=None):
        self.start(namespace, "unshare", "--uts", "sh", "-c",
                   f'{hide(hidden)}{hide(self.folder / "pmix")}hostname "$0"; exec "$@"', name, *words,
                   env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_up(self):
        states = subprocess.run(["ip", "netns", "exec", self.command, "sinfo", "-h", "-o", "%D %t"], env=self.environment,
                                capture_output=True, text=True, check=False).stdout
        return f"{len(self.hosts)} idle" in states

    def wait_or_skip(self):
        """Ends the test as skipped where a slurmd does not start: it wants the kernel's cgroups."""
        if wait_until(self.is_up, 30):
            return
        reason = self.logs()
        self.remove()
        print(f"skipped: Slurm does not start here:\n{reason}", flush=True)
        os._exit(77)

    def logs(self):
        return "\n".join(f"{log.name}: {log.read_text()[-500:]}" for log in self.folder.glob("*.log"))


def missing():
    """Why the test cannot run; empty: it can."""
    for name, path in PROGRAMS.items():
        if not path:
            return f"{name} is not installed"
    return missing_namespaces()
