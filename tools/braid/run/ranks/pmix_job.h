// The job of a PMIx server (Open MPI's mpirun, `srun --mpi=pmix`; the PMIx standard 4.1) that this process is a rank of. libpmix is loaded when
// it is needed, so that other commands do not wait for it, and start where it is not installed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

// The environment names a server, and this process as one of its ranks.
bool is_pmix_rank();
// How many processes the command that started this one has started; nothing: the environment does not say.
std::optional<unsigned> started_processes();

struct JobTexts {
  unsigned rank;                   // of this process
  std::vector<std::string> texts;  // by rank
};
// Every rank of the job says `own`, and gets what all say. Blocks until all have come, at most a minute. Then this process is no rank any more: the
// variables that made it one are gone, as its children are none, and libpmix has no thread. The error names the cure.
Result<JobTexts> exchange_in_job(const std::string& own);

}  // namespace braid::cli
