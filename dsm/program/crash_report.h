// Prints a report when a signal is about to kill the program: which signal, which compute node, the address that was
// accessed, and the calls that led there, with function, file and line where the program has debugging information.
#pragma once

#include <signal.h>

namespace braid::dsm {

// Prints it to standard error, and records it (end_record.h). For a handler of a signal whose default follows. It
// allocates nothing from the C library's heap and takes no lock of it, because the code that was interrupted may hold
// them. Returns at once in a thread that crashes while it reports, and in a child of fork(); of several threads the
// first one reports, and the others wait for the end.
void report_crash(int signal_number, const siginfo_t* info, const void* context);

// Makes report_crash() the handler of SIGABRT, SIGFPE, SIGILL, SIGSYS and SIGTRAP where the program has left the
// default. The default follows. SIGSEGV and SIGBUS: faults.h.
void report_crash_signals();

}  // namespace braid::dsm
