// The datagrams of a fault world as the oracle sees them: which were sent, and whether what arrives or comes back is
// one of them, unchanged, where it belongs, and once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "proxy/daemon/datagram.h"

namespace braid::sim {

class DatagramLedger {
 public:
  using Number = std::uint32_t;
  static constexpr std::size_t kMinBytes = sizeof(Number);

  struct Entry {
    ClusterId from;
    ClusterId to;
    stack::ProtocolId protocol;
    PortId source;
    PortId destination;
    bool is_answer = false;  // sent by the proxy that served another
    Instant sent_at;
    std::uint32_t bytes = 0;
    bool delivered = false;
    proxy::DatagramReturn returned = proxy::DatagramReturn::kNone;
    bool settled() const { return delivered || returned != proxy::DatagramReturn::kNone; }
  };

  // The next datagram is about to be sent: from now on it may arrive. `entry.bytes` is at least kMinBytes.
  Number offer(const Entry& entry);
  // It was never sent.
  void withdraw(Number number);
  std::vector<std::byte> content(Number number) const;

  // It has arrived at cluster `at`, or, if `returned` is set, it has come back to `at`. Returns what is wrong with
  // that, for a person; empty: nothing. `number`: which one it is, if nothing is wrong.
  // `failed_over`: a path was given up, so what comes back may come back again over another (PS-5).
  std::string arrive(ClusterId at, const proxy::Datagram& datagram, Number* number, bool failed_over = false);

  const Entry& operator[](Number number) const { return entries_[number]; }
  // Withdrawn ones too.
  Number size() const { return static_cast<Number>(entries_.size()); }
  // Neither delivered nor returned.
  std::size_t open() const { return open_; }
  std::string describe(Number number) const;

 private:
  std::string deliver(Entry& entry);
  std::string come_back(Entry& entry, proxy::DatagramReturn reason, bool failed_over);

  std::vector<Entry> entries_;
  std::size_t open_ = 0;
};

}  // namespace braid::sim
