// Some clusters' engines, their memory, and a network whose order the test chooses: for scenarios and random
// programs.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "dsm/engine/engine.h"
#include "dsm/engine/messages.h"
#include "tests/dsm/array_memory.h"

namespace braid::dsm {

struct InFlight {
  std::uint16_t from = 0;
  std::uint16_t to = 0;
  std::vector<std::byte> bytes;

  Kind kind() const { return static_cast<Kind>(bytes[0]); }
  std::uint32_t id() const { return load<std::uint32_t>(&bytes[4]); }
  std::uint32_t number() const { return load<std::uint32_t>(&bytes[8]); }
};

class EngineMachine {
 public:
  explicit EngineMachine(EngineConfig config) : config_(config) {
    for (std::uint16_t c = 0; c < config.clusters; ++c) {
      config.cluster = ClusterId(c);
      memories_.push_back(std::make_unique<ArrayMemory>(config.pages, config.page_length));
      engines_.push_back(std::make_unique<Engine>(config, *memories_.back()));
    }
  }

  Engine& engine(std::uint16_t cluster) { return *engines_[cluster]; }
  ArrayMemory& memory(std::uint16_t cluster) { return *memories_[cluster]; }
  const EngineConfig& config() const { return config_; }
  void set_home(std::uint32_t first, std::uint32_t count, std::uint16_t home) {
    for (auto& engine : engines_) engine->set_home(PageId(first), count, ClusterId(home));
  }

  // Does the hardware allow the access? If not, the node faults.
  bool may(std::uint16_t cluster, std::size_t address, Access wanted) const {
    return memories_[cluster]->access(page_of(address).value()) >= wanted;
  }
  std::uint8_t peek(std::uint16_t cluster, std::size_t address) {
    EXPECT_TRUE(may(cluster, address, Access::kRead)) << "cluster " << cluster << " reads without permission";
    return std::to_integer<std::uint8_t>(memories_[cluster]->at(address));
  }
  void poke(std::uint16_t cluster, std::size_t address, std::uint8_t value) {
    EXPECT_TRUE(may(cluster, address, Access::kWrite))
        << "cluster " << cluster << " writes without permission";
    memories_[cluster]->at(address) = std::byte{value};
  }

  // --- The network. Puts the next message of `from` for `to` on the wire; false if there is none.
  bool transmit(std::uint16_t from, std::uint16_t to) {
    std::array<std::byte, max_message_bytes(PageLength(PageLength::kMostBytes))> all;
    const MutableBytes room = MutableBytes(all).first(max_message_bytes(config_.page_length));
    const std::size_t length = engines_[from]->poll_transmit(ClusterId(to), room);
    if (length == 0) return false;
    wire.push_back({from, to, {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(length)}});
    return true;
  }
  // Puts all messages that are ready on the wire.
  void transmit_all() {
    for (bool any = true; any;) {
      any = false;
      for (std::uint16_t from = 0; from < config_.clusters; ++from)
        for (std::uint16_t to = 0; to < config_.clusters; ++to)
          if (from != to && transmit(from, to)) any = true;
    }
  }
  void deliver(std::size_t index) {
    const InFlight message = std::move(wire[index]);
    wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(index));
    engines_[message.to]->on_message(ClusterId(message.from), message.bytes);
  }
  // The oldest message of that kind to that cluster; fails the test when there is none.
  void deliver(Kind kind, std::uint16_t to) {
    transmit_all();
    for (std::size_t i = 0; i < wire.size(); ++i) {
      if (wire[i].kind() != kind || wire[i].to != to) continue;
      deliver(i);
      transmit_all();
      check();
      return;
    }
    FAIL() << "no message of kind " << static_cast<int>(kind) << " to cluster " << to
           << " among: " << on_wire();
  }
  // Delivers everything in flight and all that follows from it, oldest first.
  void deliver_all() {
    for (transmit_all(); !wire.empty(); transmit_all()) {
      deliver(std::size_t{0});
      check();
    }
  }
  std::size_t count(Kind kind) const {
    std::size_t n = 0;
    for (const InFlight& m : wire) n += m.kind() == kind;
    return n;
  }
  std::size_t count_to(Kind kind, std::uint16_t to) const {
    std::size_t n = 0;
    for (const InFlight& m : wire) n += m.kind() == kind && m.to == to;
    return n;
  }
  std::string on_wire() const {
    std::string s;
    for (const InFlight& m : wire)
      s += fmt::format("[{}->{} kind {} id {} number {}] ", m.from, m.to, static_cast<int>(m.kind()), m.id(),
                       m.number());
    return s.empty() ? "nothing" : s;
  }

  // --- Accesses of a node without delayed messages: faults until the access is allowed.
  void open(std::uint16_t cluster, std::size_t address, Access wanted, std::uint16_t node = 0) {
    for (int tries = 0; !may(cluster, address, wanted); ++tries) {
      ASSERT_LT(tries, 10);
      if (!engine(cluster).fault(node, page_of(address), wanted)) deliver_all();
      ASSERT_TRUE(engine(cluster).done(node));
    }
    check();
  }
  std::uint8_t read(std::uint16_t cluster, std::size_t address, std::uint16_t node = 0) {
    open(cluster, address, Access::kRead, node);
    return peek(cluster, address);
  }
  void write(std::uint16_t cluster, std::size_t address, std::uint8_t value, std::uint16_t node = 0) {
    open(cluster, address, Access::kWrite, node);
    poke(cluster, address, value);
  }
  void lock(std::uint16_t cluster, std::uint32_t lock, std::uint16_t node = 0) {
    if (!engine(cluster).lock(node, LockId(lock))) deliver_all();
    ASSERT_TRUE(engine(cluster).done(node));
  }
  void unlock(std::uint16_t cluster, std::uint32_t lock, std::uint16_t node = 0) {
    engine(cluster).unlock(node, LockId(lock));
    check();
  }

  PageId page_of(std::size_t address) const {
    return PageId(static_cast<std::uint32_t>(config_.page_length.pages_in(address)));
  }
  void check() const {
    for (const auto& engine : engines_) engine->check();
  }
  bool quiet() const {
    bool all = wire.empty();
    for (const auto& engine : engines_) all = all && engine->quiet();
    return all;
  }
  std::uint64_t bad_messages() const {
    std::uint64_t n = 0;
    for (const auto& engine : engines_) n += engine->counts().bad_messages;
    return n;
  }

  std::vector<InFlight> wire;

 private:
  EngineConfig config_;
  std::vector<std::unique_ptr<ArrayMemory>> memories_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace braid::dsm
