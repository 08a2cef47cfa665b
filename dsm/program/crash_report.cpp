#include "dsm/program/crash_report.h"

#include <fmt/format.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "dsm/program/end_record.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/private_memory.h"
#include "dsm/program/program_signals.h"
#include "dsm/program/stack_trace.h"

namespace braid::dsm {

namespace {

void put(const char* text, std::size_t length) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, length);
}

template <class... Args>
void say(fmt::format_string<Args...> format, const Args&... args) {
  char text[512];
  put(text, format_within(text, sizeof text, format, fmt::make_format_args(args...)));
}

void put_trace_line(const char* text, std::size_t length) {
  say("braid:   {}", fmt::string_view(text, length));
}

bool is_fault(int signal_number, const siginfo_t* info) {
  return info->si_code > 0 && (signal_number == SIGSEGV || signal_number == SIGBUS);
}

const char* reason_of(int signal_number, const siginfo_t* info) {
  if (info->si_code <= 0) return signal_number == SIGABRT ? "" : ", sent by a process";
  if (signal_number == SIGSEGV && info->si_code == SEGV_MAPERR) return ", where nothing is mapped";
  if (signal_number == SIGSEGV && info->si_code == SEGV_ACCERR) return ", which does not permit it";
  if (signal_number == SIGSEGV && info->si_code == SI_KERNEL)
    return ": a pointer has a value that no address has";
  return "";
}

// "compute node 3": of the calling thread.
void name_node(const Host* host, char* text, std::size_t room) {
  const int local = host == nullptr ? -1 : host->current_node();
  std::size_t length = 0;
  if (host == nullptr) {
    length = format_within(text, room - 1, "the program", {});
  } else if (local < 0) {
    length = format_within(text, room - 1, "cluster {}, a thread that is no compute node",
                           fmt::make_format_args(host->shape().cluster));
  } else {
    const unsigned node = host->node_id(static_cast<unsigned>(local));
    length = format_within(text, room - 1, "cluster {}, compute node {}",
                           fmt::make_format_args(host->shape().cluster, node));
  }
  text[length] = '\0';
}

// Where the cause may be that clusters do not share the memory of libraries. `address` 0: of no access.
void explain_private_memory(std::uintptr_t address, const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  const LibraryName library = library_of_code(static_cast<std::uintptr_t>(registers[REG_RIP]));
  const bool is_in_library = library.text[0] != '\0';
  const bool is_elsewhere = address != 0 && is_private_elsewhere(address);
  if (is_elsewhere)
    say("braid:   at this address another cluster has private memory: what a library or the C library has allocated for itself, or "
        "memory that is not from the shared heap, is good in its own cluster alone\n");
  else if (is_in_library)
    say("braid:   it is in {}, whose memory and variables are each cluster's own: what it has made for a thread of another cluster "
        "is not here\n",
        library.text);
  if (is_in_library) {
    const std::size_t length = static_cast<std::size_t>(::strstr(library.text, ".so") - library.text);
    say("braid:   link {} as an archive in a pthread program (-l:{}.a), or let threads of one cluster alone use what it makes\n",
        library.text, fmt::string_view(library.text, length));
  } else if (is_elsewhere) {
    say("braid:   link the library that made it as an archive in a pthread program (-l:libNAME.a), or let threads of one cluster alone use it\n");
  }
}

void on_crash_signal(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  report_crash(signal_number, info, context);
  // SA_RESETHAND: the default is in effect. An instruction is repeated; a signal that was sent is not.
  if (info->si_code <= 0) ::raise(signal_number);
  errno = saved_errno;
}

}  // namespace

void report_crash(int signal_number, const siginfo_t* info, const void* context) {
  if (is_forked_child()) return;
  if (!claim_end()) return;
  const Host* const host = current_host();
  const int local = host == nullptr ? -1 : host->current_node();
  const bool has_address = is_fault(signal_number, info) && info->si_code != SI_KERNEL;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  record_end(EndCause::kSignal,
             {.node = local < 0 ? -1 : static_cast<int>(host->node_id(static_cast<unsigned>(local))),
              .signal = signal_number,
              .has_address = has_address,
              .address = address});
  char who[96];
  name_node(host, who, sizeof who);
  const char* const name = ::sigdescr_np(signal_number);
  if (has_address) {
    say("braid: {}: {} at address {:#x}{}\n", who, name, address, reason_of(signal_number, info));
  } else {
    say("braid: {}: {}{}\n", who, name, reason_of(signal_number, info));
  }
  write_stack_trace(context, put_trace_line);
  if (host != nullptr && host->shape().clusters > 1 && is_fault(signal_number, info))
    explain_private_memory(has_address ? address : 0, context);
}

void report_crash_signals() {
  struct sigaction ours = {};
  ours.sa_sigaction = on_crash_signal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&ours.sa_mask);
  for (const int signal_number : {SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP}) {
    struct sigaction current = {};
    if (::sigaction(signal_number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
        current.sa_handler == SIG_DFL)
      ::sigaction(signal_number, &ours, nullptr);
  }
}

}  // namespace braid::dsm
