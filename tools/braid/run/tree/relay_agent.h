// `braid-node --relay-hosts`: the end of a HostRelay on its host.
#pragma once

namespace braid::cli {

// Talks to the run through standard input and output (host_relay.h). Blocks until the run needs it no more, has ended or says nothing; then
// everything that it started has ended. Takes over the signals of the process, whose only thread calls. Returns the status of the process.
int serve_hosts_behind();

}  // namespace braid::cli
