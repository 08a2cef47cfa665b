#include "sim/shell_turns.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "dsm/engine/messages.h"

namespace braid::sim {

ShellTurns::ShellTurns(Shell& shell, unsigned compute, dsm::PageLength length, Closing closing)
    : shell_(shell),
      control_(shell.control()),
      heap_(shell.heap()),
      compute_(compute),
      length_(length),
      closing_(std::move(closing)) {
  CHECK_LE(compute, kMaxComputeNodes);
}

void ShellTurns::bring(std::uint32_t first, std::uint32_t count) {
  const std::uint32_t filled = control_.filled_pages;
  if (has_contents_.size() < filled) {
    has_contents_.resize(filled);
    has_run_.assign(filled, false);
  }
  for (std::uint32_t page = first; page < std::min(first + count, filled); ++page) {
    if (has_contents_[page]) continue;
    has_contents_[page] = true;
    const std::size_t at = length_.bytes_of(page);
    std::memcpy(heap_ + at, shell_.contents() + at, length_.bytes());
  }
}

void ShellTurns::bring_run(std::uint32_t first) {
  if (first < has_run_.size() && has_run_[first]) return;
  bring(first, static_cast<std::uint32_t>(dsm::max_reply_pages(length_)));
  has_run_[first] = true;
}

void ShellTurns::protect(PageId first, std::uint32_t count, dsm::Access access) {
  ++protections_;
  if (access != dsm::Access::kNone) bring(first.value(), count);
  if (access != dsm::Access::kWrite) closing_(first, count, access);
  if (!pending_.empty()) {
    ProtectionRun& last = pending_.back();
    if (last.access == access && last.first + last.count == first.value()) {
      last.count += count;
      return;
    }
  }
  pending_.push_back({first.value(), count, access});
}

Result<void> ShellTurns::hand_over() {
  control_.asking = Control::kNobody;
  ++hand_overs_;
  return shell_.run();
}

Result<std::uint32_t> ShellTurns::run(std::int64_t until, std::uint32_t allocated_pages) {
  if (until - kLongestTurn > clock()) until = clock() + kLongestTurn;  // clock() is kNever where no node runs
  control_.allocated_pages = allocated_pages;
  for (std::size_t done = 0;;) {
    const std::size_t count = std::min<std::size_t>(pending_.size() - done, kMaxProtectionRuns);
    std::copy_n(pending_.begin() + static_cast<std::ptrdiff_t>(done), count, control_.protections);
    control_.protection_runs = static_cast<std::uint32_t>(count);
    done += count;
    const bool is_last = done >= pending_.size();
    // Protections that do not fit are applied first, in turns in which no node runs.
    control_.until = is_last ? until : std::numeric_limits<std::int64_t>::min();
    if (const Result<void> ran = hand_over(); !ran) return ran.error();
    if (is_last) break;
  }
  pending_.clear();
  if (control_.asking != Control::kNobody && control_.asking >= compute_)
    return error("the shell of cluster {} names compute node {}: there are {}", control_.cluster,
                 control_.asking, compute_);
  return control_.asking;
}

Result<std::uint32_t> ShellTurns::run_alone(unsigned n, std::int64_t until, std::uint32_t allocated_pages) {
  std::bitset<kMaxComputeNodes> others;
  for (unsigned other = 0; other < compute_; ++other) {
    if (other == n) continue;
    others[other] = control_.nodes[other].runnable;
    control_.nodes[other].runnable = false;
  }
  const Result<std::uint32_t> asking = run(until, allocated_pages);
  for (unsigned other = 0; other < compute_; ++other)
    if (others[other]) control_.nodes[other].runnable = true;
  return asking;
}

}  // namespace braid::sim
