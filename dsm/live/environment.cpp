#include "dsm/live/environment.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/processors.h"
#include "convergence/position.h"
#include "dsm/engine/types.h"
#include "dsm/program/host.h"
#include "settings/engine.h"
#include "settings/limits.h"
#include "settings/run_words.h"
#include "settings/words.h"

namespace braid::dsm {

namespace {

constexpr const char* kCure =
    "`braid run` sets it: start the program with `braid run`, or unset every BRAID_ variable";

// Reads the integer in `name`, if it is set, into `value`; empty if all is well.
template <class T>
std::string read_number(const Environment::Lookup& lookup, const char* name, std::uint64_t least,
                        std::uint64_t most, T* value) {
  const char* const text = lookup(name);
  if (text == nullptr) return {};
  std::uint64_t number = 0;
  const char* const end = text + std::strlen(text);
  const std::from_chars_result parsed = std::from_chars(text, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < least || number > most) {
    return fmt::format("{} is '{}': it must be a whole number from {} to {}; {}", name, text, least, most,
                       kCure);
  }
  *value = static_cast<T>(number);
  return {};
}

// The same for a word of an enumeration.
template <class E>
std::string read_word(const Environment::Lookup& lookup, const char* name, E* value) {
  const char* const text = lookup(name);
  if (text == nullptr) return {};
  if (const std::optional<E> named = settings::value_of_word<E>(text)) {
    *value = *named;
    return {};
  }
  std::string allowed;
  for (const settings::Word<E>& word : settings::Words<E>::kAll)
    allowed += fmt::format("{}'{}'", allowed.empty() ? "" : ", ", word.text);
  return fmt::format("{} is '{}': it must be one of {}; {}", name, text, allowed, kCure);
}

// The settings know nothing of pages.
static_assert(convergence::max_run_bytes(settings::kMinWindowKib * 1024) >=
                  kMessageHeaderBytes + min_room_bytes(PageLength()),
              "an engine's message fits the smallest window");
static_assert(convergence::max_run_bytes(settings::kMaxWindowKib * 1024) >=
                  kMessageHeaderBytes + max_message_bytes(PageLength(settings::kMaxPageBytes)),
              "an engine's longest message can be one piece");
static_assert(settings::kMaxWindowKib * 1024 <= convergence::kMaxWindowBytes);

// Not a setting: `braid run` passes open descriptors. The bound is the most that a process can have.
constexpr std::uint64_t kMaxDescriptor = 1u << 20;

}  // namespace

Result<Environment> Environment::read(const Lookup& lookup) {
  Environment e;
  if (const char* const service = lookup(variable::kService)) e.service = service;

  std::uint32_t page_bytes = settings::kMinPageBytes;
  std::uint32_t timeout_ms = static_cast<std::uint32_t>(e.connect_timeout.ns() / 1'000'000);
  for (const std::string& problem : {
           read_number(lookup, variable::kClusters, 1, kMaxClusters, &e.clusters),
           read_number(lookup, variable::kCluster, 0, kMaxClusters - 1, &e.cluster),
           read_number(lookup, variable::kCompute, 1, kMaxComputeNodes, &e.compute),
           read_number(lookup, variable::kHeapMib, 1, settings::kMaxHeapMib, &e.heap_mib),
           read_number(lookup, variable::kPageBytes, settings::kMinPageBytes, settings::kMaxPageBytes,
                       &page_bytes),
           read_number(lookup, variable::kWindowKib, settings::kMinWindowKib, settings::kMaxWindowKib,
                       &e.window_kib),
           read_number(lookup, variable::kReportFd, 0, kMaxDescriptor, &e.report_fd),
           read_number(lookup, variable::kPulseFd, 0, kMaxDescriptor, &e.pulse_fd),
           read_number(lookup, variable::kConnectTimeoutMs, 1, settings::kDayMs, &timeout_ms),
       }) {
    if (!problem.empty()) return Error{problem};
  }
  e.connect_timeout = Duration::ms(timeout_ms);

  if (const char* const text = lookup(variable::kProcessors)) {
    std::optional<std::vector<unsigned>> processors = parse_processors(text);
    if (!processors || processors->size() > e.compute)
      return error("{} is '{}': it must be at most {} numbers of processors with commas between them; {}",
                   variable::kProcessors, text, e.compute, kCure);
    e.processors = std::move(*processors);
  }
  if ((e.window_kib & (e.window_kib - 1)) != 0) {
    return error("{} is {}: it must be a power of two, such as 128 or 256", variable::kWindowKib,
                 e.window_kib);
  }
  if (!PageLength::valid(page_bytes))
    return error("{} is {}: it must be a power of two; {}", variable::kPageBytes, page_bytes, kCure);
  if (e.window_kib < settings::least_window_kib(PageLength(page_bytes))) {
    return error("{} is {}, too little for {} of {}: it must be at least {}", variable::kWindowKib,
                 e.window_kib, variable::kPageBytes, page_bytes,
                 settings::least_window_kib(PageLength(page_bytes)));
  }
  for (const std::string& problem : {read_word(lookup, variable::kDispatch, &e.dispatch),
                                     read_word(lookup, variable::kProtocol, &e.protocol),
                                     read_word(lookup, variable::kProtection, &e.protect)}) {
    if (!problem.empty()) return Error{problem};
  }
  if (e.protocol == Protocol::kMgs) {
    return error("{} is 'mgs', which only simulated runs have: take 'eager' or 'lazy'", variable::kProtocol);
  }
  if (e.cluster >= e.clusters) {
    return error("{} is {}, but {} says there are only {}: clusters count from 0", variable::kCluster,
                 e.cluster, variable::kClusters, e.clusters);
  }
  if (e.service.empty() && e.clusters > 1) {
    return error("{} is {}, but {} names no braidd that joins them: {}", variable::kClusters, e.clusters,
                 variable::kService, kCure);
  }
  for (const auto& [name, fd] :
       {std::pair{variable::kReportFd, e.report_fd}, {variable::kPulseFd, e.pulse_fd}}) {
    if (fd >= 0 && ::fcntl(fd, F_GETFD) < 0)
      return error("{} is {}, which is no open descriptor: {}", name, fd, kCure);
  }
  return e;
}

Result<Environment> Environment::read() {
  return read([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace braid::dsm
