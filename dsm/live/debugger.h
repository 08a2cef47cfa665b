// `braid run --gdb`: the process of that cluster waits, before its main(), until a debugger has attached to it.
#pragma once

namespace braid::dsm {

// Tells `braid run` this process and waits for the debugger, or until `braid run` gives up. Returns at once where
// BRAID_DEBUGGER is not set, or was seen before. Called by a constructor, and in each clone of a program with main()
// once.
void wait_for_debugger();

}  // namespace braid::dsm
