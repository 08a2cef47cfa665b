// A NicQueue in front of another one, which owns it and does what that does, but for what a derived class overrides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "proxy/nic/nic_queue.h"

namespace braid::proxy {

class NicQueueDecorator : public NicQueue {
 public:
  std::size_t receive(std::span<MutableBytes> frames) override { return wire_->receive(frames); }
  std::size_t reserve(std::span<TxFrame> frames) override { return wire_->reserve(frames); }
  void commit(std::span<const TxFrame> frames) override { wire_->commit(frames); }
  bool link_up() const override { return wire_->link_up(); }
  std::uint32_t max_frame_bytes() const override { return wire_->max_frame_bytes(); }
  WakeWord* wake_word() override { return wire_->wake_word(); }
  void announce_sleep() override { wire_->announce_sleep(); }
  void withdraw_sleep() override { wire_->withdraw_sleep(); }
  std::uint64_t transmit_drops() const override { return wire_->transmit_drops(); }
  std::uint64_t receive_drops() const override { return wire_->receive_drops(); }
  std::uint64_t icmp_errors() const override { return wire_->icmp_errors(); }
  std::uint64_t address_changes() const override { return wire_->address_changes(); }

 protected:
  explicit NicQueueDecorator(std::unique_ptr<NicQueue> wire) : wire_(std::move(wire)) {}

  const std::unique_ptr<NicQueue> wire_;
};

}  // namespace braid::proxy
