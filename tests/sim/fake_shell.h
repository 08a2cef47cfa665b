// A shell whose turns a test takes part in: no program, and no node that runs by itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/shell_turns.h"
#include "tests/dsm/page_bytes.h"

namespace braid::sim {

class FakeShell final : public Shell {
 public:
  explicit FakeShell(unsigned compute, std::uint32_t heap_pages = 16)
      : control_(std::make_unique<Control>()), heap_(std::size_t{heap_pages} * dsm::kPageBytes) {
    control_->compute = static_cast<std::uint16_t>(compute);
  }

  Control& control() override { return *control_; }
  std::byte* heap() override { return heap_.data(); }
  const std::byte* contents() override { return contents_.data(); }
  // Page `page` begins with bytes of `value`.
  void begin_with(std::uint32_t page, std::byte value) {
    contents_.resize(heap_.size());
    std::fill_n(contents_.begin() + static_cast<std::ptrdiff_t>(page * dsm::kPageBytes), dsm::kPageBytes,
                value);
    control_->filled_pages = std::max(control_->filled_pages, page + 1);
  }
  Result<void> run() override {
    if (!end.empty()) return Error{end};
    if (on_turn) on_turn(*control_);
    return {};
  }
  NodeControl& node(unsigned n) { return control_->nodes[n]; }
  void set_node(unsigned n, std::int64_t clock, bool runnable) {
    node(n).clock = clock;
    node(n).runnable = runnable;
  }

  bool passes_on() const override { return can_pass_on; }

  bool can_pass_on = false;
  std::function<void(Control& control)> on_turn;  // may name a node that asks
  std::string end;                                // of the program: what run() fails with

 private:
  std::unique_ptr<Control> control_;
  std::vector<std::byte> heap_;
  std::vector<std::byte> contents_;
};

}  // namespace braid::sim
