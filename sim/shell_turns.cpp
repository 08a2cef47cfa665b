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

std::size_t ShellTurns::write_protections(std::size_t first) {
  const std::size_t count = std::min<std::size_t>(pending_.size() - first, kMaxProtectionRuns);
  std::copy_n(pending_.begin() + static_cast<std::ptrdiff_t>(first), count, control_.protections);
  control_.protection_runs = static_cast<std::uint32_t>(count);
  return first + count;
}

std::int64_t ShellTurns::limit(std::int64_t until, std::uint32_t allocated_pages) {
  const std::int64_t now = clock();  // kNever where no node runs
  if (now < until && until - now > kLongestTurn) until = now + kLongestTurn;
  control_.until = until;
  control_.allocated_pages = allocated_pages;
  control_.asking = Control::kNobody;
  control_.next = Control::kEngine;
  return until;
}

std::optional<std::int64_t> ShellTurns::prepare(std::int64_t until, std::uint32_t allocated_pages) {
  if (!shell_.passes_on() || pending_.size() > kMaxProtectionRuns) return {};
  (void)write_protections(0);
  return limit(until, allocated_pages);
}

Result<std::uint32_t> ShellTurns::end() {
  ++hand_overs_;
  pending_.clear();
  if (control_.asking != Control::kNobody && control_.asking >= compute_)
    return error("the shell of cluster {} names compute node {}: there are {}", control_.cluster,
                 control_.asking, compute_);
  return control_.asking;
}

Result<std::uint32_t> ShellTurns::run(std::int64_t until, std::uint32_t allocated_pages) {
  std::size_t next = write_protections(0);
  // Protections that do not fit are applied first, in turns in which no node runs.
  for (; next < pending_.size(); next = write_protections(next)) {
    (void)limit(std::numeric_limits<std::int64_t>::min(), allocated_pages);
    ++hand_overs_;
    if (const Result<void> ran = shell_.run(); !ran) return ran.error();
  }
  (void)limit(until, allocated_pages);
  if (const Result<void> ran = shell_.run(); !ran) return ran.error();
  return end();
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
