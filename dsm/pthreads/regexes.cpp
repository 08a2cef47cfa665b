// regcomp() and so on. What the C library makes of a pattern is memory of one process, and changes with use. So the program's regex_t has the
// pattern, in shared memory, and each cluster that uses it compiles its own.
#include <errno.h>
#include <regex.h>
#include <string.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "dsm/program/host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

// In shared memory, with the pattern behind it.
struct Pattern {
  std::uint64_t id;  // of no other pattern of the run
  int flags;
};
const char* text_of(const Pattern* pattern) {
  return reinterpret_cast<const char*>(pattern + 1);
}

struct Compiled {
  regex_t regex{};
  bool done = false;
  ~Compiled() {
    if (done) ::regfree(&regex);
  }
};

// This cluster's, by the patterns' ids. The lock is never held while the machine is called. Those that other clusters have freed leave when there
// are too many.
struct Here {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<Compiled>> compiled;
};
constexpr std::size_t kMostCompiled = 1024;
Here& here() {
  static Here& all = *new Here;
  return all;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  const Host* const host = current_host();
  const std::uint64_t cluster = host != nullptr && started() ? host->shape().cluster : 0;
  return cluster << 48 | ++last;
}

std::shared_ptr<Compiled>* find(std::uint64_t id) {
  const std::lock_guard hold(here().mutex);
  const auto found = here().compiled.find(id);
  return found == here().compiled.end() ? nullptr : new std::shared_ptr(found->second);
}

void keep(std::uint64_t id, const std::shared_ptr<Compiled>& compiled) {
  const std::lock_guard hold(here().mutex);
  auto& all = here().compiled;
  for (auto at = all.begin(); all.size() >= kMostCompiled && at != all.end();)
    at = at->second.use_count() == 1 ? all.erase(at) : std::next(at);
  all[id] = compiled;
}

void forget(std::uint64_t id) {
  const std::lock_guard hold(here().mutex);
  here().compiled.erase(id);
}

// The program's stack has room for the C library's recursion. 0: it is kept.
int compile(std::uint64_t id, const char* text, int flags, std::size_t* groups) {
  auto* const compiled = on_private([] { return new std::shared_ptr(std::make_shared<Compiled>()); });
  const int result = ::regcomp(&(*compiled)->regex, text, flags);
  (*compiled)->done = result == 0;
  *groups = (*compiled)->regex.re_nsub;
  on_private([=] {
    if (result == 0) keep(id, *compiled);
    delete compiled;
  });
  return result;
}

Pattern*& pattern_of(regex_t* regex) {
  return reinterpret_cast<Pattern*&>(regex->buffer);
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(regcomp)(regex_t* regex, const char* text, int flags) {
  const std::size_t bytes = ::strlen(text) + 1;
  auto* const pattern = static_cast<Pattern*>(WRAPPED(malloc)(sizeof(Pattern) + bytes));
  if (pattern == nullptr) return REG_ESPACE;
  *pattern = {on_private(next_id), flags};
  ::memcpy(pattern + 1, text, bytes);
  std::size_t groups = 0;
  const int result = compile(pattern->id, text, flags, &groups);
  if (result != 0) {
    WRAPPED(free)(pattern);
    return result;
  }
  *regex = {};
  pattern_of(regex) = pattern;
  regex->re_nsub = groups;
  return 0;
}

int WRAPPED(regexec)(const regex_t* regex, const char* text, std::size_t count, regmatch_t* matches,
                     int flags) {
  const Pattern* const pattern = pattern_of(const_cast<regex_t*>(regex));
  const std::uint64_t id = pattern->id;
  auto* compiled = on_private([id] { return find(id); });
  while (compiled == nullptr) {
    std::size_t groups = 0;
    if (compile(id, text_of(pattern), pattern->flags, &groups) != 0) return REG_ESPACE;
    compiled = on_private([id] { return find(id); });
  }
  const int result = ::regexec(&(*compiled)->regex, text, count, matches, flags);
  on_private([=] { delete compiled; });
  return result;
}

void WRAPPED(regfree)(regex_t* regex) {
  Pattern* const pattern = pattern_of(regex);
  if (pattern == nullptr) return;
  const std::uint64_t id = pattern->id;
  on_private([id] { forget(id); });
  WRAPPED(free)(pattern);
  pattern_of(regex) = nullptr;
}

}  // extern "C"
