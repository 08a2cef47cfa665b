// What braid-node does on its host: it carries out what `braid run` asks for by messages on standard input (messages.h),
// and tells what happens on standard output.
#pragma once

namespace braid::cli {

// Serves to the end of the run, or until nothing has come for as long as Liveness::kLost. Returns the command's status.
// Blocks; takes over the signals of the process, whose only thread calls.
int serve_host();

}  // namespace braid::cli
