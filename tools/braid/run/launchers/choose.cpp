#include <algorithm>
#include <cstdlib>

#include "tools/braid/run/launchers/host_launcher.h"

namespace braid::cli {
Result<std::unique_ptr<HostLauncher>> choose_launcher(const std::string& name, const std::vector<Host>& hosts,
                                                      const std::vector<std::string>& ssh,
                                                      std::size_t fan_out) {
  const bool are_here = std::all_of(hosts.begin(), hosts.end(), is_this_machine);
  if (name == "local" && !are_here)
    return error(
        "--launcher local: it starts nodes on this host only: name addresses of the loopback network, 127.0.0.1,127.0.0.2");
  if (name == "local" || (name == "auto" && are_here)) return local_launcher();
  if (name == "slurm" && std::getenv("SLURM_JOB_ID") == nullptr)
    return error("--launcher slurm: this is not inside an allocation: start it by sbatch or salloc");
  if (name == "slurm" || (name == "auto" && std::getenv("SLURM_JOB_ID") != nullptr)) return slurm_launcher();
  if (name == "pmix")
    return error("--launcher pmix: only 'braid run' is started by mpirun or 'srun --mpi=pmix'");
  if (name == "ssh" || name == "auto") return ssh_launcher(ssh, fan_out);
  return error("--launcher {}: allowed: auto, local, pmix, ssh, slurm", name);
}

}  // namespace braid::cli
