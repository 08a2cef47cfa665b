// The ranks of a job that are one run: the first starts it (`braid run`), the first of every other host serves that host by a
// braid-node, and the rest wait. docs/decisions/0038.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/run/ranks/rank_card.h"
#include "tools/braid/run/ranks/tls_connection.h"

namespace braid::cli {

struct RankedRun {
  unsigned rank;                // of this process
  std::vector<RankCard> cards;  // by rank
  std::vector<RankHost> hosts;
  TlsIdentity identity;
  // Rank 0 accepts nothing on it: the kernel ends what others have connected to it when rank 0 ends.
  Descriptor listener;
};

// Meets the others. From then on the first rank of each host may run on the processors of all ranks of that host. Blocks
// (pmix_job.h). An error ends the command; of errors that all ranks see only rank 0 speaks.
RankedRun join_job();

// What a rank other than 0 does, until the run has ended. `node`: the words that start the host's braid-node. Blocks; takes over the signals of
// the process, whose only thread calls. Returns the status of the process, which is 0 but for a signal: rank 0 has the run's.
int serve_rank(RankedRun run, const std::vector<std::string>& node);

}  // namespace braid::cli
