#include "bench/stage_times.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/ethernet.h"
#include "bench/stage_times_clock.h"
#include "bench/stage_times_parts.h"
#include "dsm/engine/types.h"
#include "stack/wire/flow.h"

namespace braid::bench {
namespace {

constexpr std::size_t kPageBytes = dsm::PageLength().bytes();

// Of the turns that are timed with many messages in a packet.
constexpr int kMany = 5;

// Everything that was timed.
struct Parts {
  NiTimes ni;
  WireTimes wire;
  HeaderTimes headers;
  ByteTimes bytes;
  Turns one, many, longer;  // one short message, kMany of them in a packet, one long message
  EngineTimes engine;
  PageTimes page;
  FaultTimes fault;
  double lock_call = 0;
};

Result<void> time_turns_of(Parts& p, unsigned samples, double clock) {
  const auto two = make_two_nodes();
  if (!two) return two.error();
  const Result<Turns> one = time_turns(**two, kShort, 1, samples, clock);
  if (!one) return one.error();
  const Result<Turns> many = time_turns(**two, kShort, kMany, samples, clock);
  if (!many) return many.error();
  const Result<Turns> longer = time_turns(**two, kLong, 1, samples, clock);
  if (!longer) return longer.error();
  p.one = *one;
  p.many = *many;
  p.longer = *longer;
  return {};
}

Result<Parts> time_parts(unsigned samples) {
  Parts p;
  const double clock = clock_ns();
  Result<Ends> ends = make_ends();
  if (!ends) return ends.error();
  p.ni = time_ni(*ends, samples);
  p.wire = time_wire(*ends, samples);
  p.headers = time_headers(samples);
  p.bytes = time_bytes(samples);
  if (const Result<void> done = time_turns_of(p, samples, clock); !done) return done.error();
  p.engine = time_engine(samples, clock);
  p.page = time_pages(samples);
  const Result<FaultTimes> fault = time_faults(samples);
  if (!fault) return fault.error();
  p.fault = *fault;
  const Result<double> lock_call = time_lock_call(samples);
  if (!lock_call) return lock_call.error();
  p.lock_call = *lock_call;
  return p;
}

// The stages that the parts amount to.
class StageTable {
 public:
  explicit StageTable(const Parts& parts)
      : p_(parts),
        send_byte_((p_.longer.send - p_.one.send) / kSpan),
        receive_byte_((p_.longer.receive - p_.one.receive) / kSpan),
        below_send_(p_.headers.udp_send + p_.headers.ip_send + p_.ni.send),
        below_receive_(p_.headers.udp_receive + p_.headers.ip_receive + p_.ni.receive) {}

  StageTimes all() {
    put_page_protocol();
    put_client();
    put_bytes();
    put_headers();
    put_window();
    put_wire();
    return std::move(times_);
  }

 private:
  static constexpr double kSpan = kLong - kShort;

  // Less than nothing is what noise makes of next to nothing.
  void put(const char* key, double ns, std::string how) { times_[key] = {std::max(ns, 0.0), std::move(how)}; }
  void put_fixed(const char* key, double ns, std::string how) {
    constexpr double kLeast = 0.1;  // of anything that happens at all
    times_[key] = {std::max(ns, kLeast), std::move(how)};
  }
  // The cost of a frame's bytes in the NI and the checksum.
  double of_frame(double frame_bytes) const {
    constexpr double kOutsideUdp = kEthernetHeaderBytes + stack::kIpv4HeaderBytes;
    return ni_byte() * frame_bytes + p_.bytes.sum * (frame_bytes - kOutsideUdp);
  }
  double ni_byte() const { return times_.at("ni_byte").ns; }
  double deliver_byte() const { return times_.at("deliver_byte").ns; }

  void put_page_protocol() {
    const char* const way = p_.fault.userfaultfd ? "userfaultfd" : "mprotect";
    put_fixed(
        "fault", p_.fault.fault,
        fmt::format("from an access to the runtime's handler and back, {}, less the page's opening", way));
    put_fixed("call", p_.lock_call - p_.engine.lock, "a lock call of a program less what its engine does");
    put_fixed("lock", p_.engine.lock, "the engine's lock and unlock, halved");
    put_fixed("barrier", p_.engine.barrier, "the engine's, of the only compute node");
    put_fixed("sync", p_.engine.sync, "the engine's, a word that is at home here");
    put_fixed("protect", p_.fault.protect,
              fmt::format("a page opened or closed by {}; {:.0f} ns while a sibling computes", way,
                          p_.fault.protect_beside_sibling));
    put_fixed("twin", p_.page.copy, "a page copied within the second-level cache");
    put_fixed("diff", p_.page.diff, "a page with one change of eight bytes");
    put("diff_byte", p_.page.diff_byte,
        "changes in half of a page less one change; mean of finding and applying");
    put("page_byte", p_.page.copy / kPageBytes, "a page copied within the second-level cache");
  }
  void put_client() {
    put_fixed("handler", p_.one.poll + p_.engine.small_message,
              "a client's poll that takes a message less one that takes none, and the engine's part");
    const double hand_over_byte = (p_.longer.hand_over - p_.one.hand_over) / kSpan;
    put("hand_over_byte", hand_over_byte, "4096 and 64 bytes, written in place by the page protocol");
    put_fixed("hand_over", p_.one.hand_over + p_.engine.small_output - kShort * std::max(hand_over_byte, 0.0),
              "a client's reserve, commit and flush, and the engine's writing of a small message");
  }
  void put_bytes() {
    put("checksum_byte", p_.bytes.sum, "checksum_add() over 4096 and 64 bytes in the cache");
    put("ni_byte", std::max(send_byte_ - p_.bytes.sum, p_.bytes.copy),
        "a proxy's turn that sends 4096 bytes less one that sends 64, less their checksum; at least a copy");
    put("deliver_byte", std::max(receive_byte_ - send_byte_, p_.bytes.copy),
        "a proxy's turn that receives 4096 bytes less one that receives 64, less the same of sending; at "
        "least a copy");
  }
  void put_headers() {
    constexpr const char* kWritten = "a flow's headers written, shared as write_udp() and write_ipv4() take";
    constexpr const char* kRead = "a flow's headers looked at, shared as parse_udp() and parse_ipv4() take";
    put_fixed("udp_send", p_.headers.udp_send, kWritten);
    put_fixed("ip_send", p_.headers.ip_send, kWritten);
    put_fixed("udp_receive", p_.headers.udp_receive, kRead);
    put_fixed("ip_receive", p_.headers.ip_receive, kRead);
    put_fixed("ni_send", p_.ni.send, "the shm wire's reserve() and commit() of one frame");
    put_fixed("ni_receive", p_.ni.receive, "the shm wire's receive() of one frame");
  }
  // The time of a proxy's turns without NI, IP, UDP and the bytes. Call it after put_bytes().
  void put_window() {
    put_fixed(
        "window_send", p_.one.send - below_send_ - of_frame(p_.one.frame_bytes),
        "a proxy's turn that takes 64 bytes from its client and sends them, less UDP, IP, NI and bytes");
    put_fixed("timer", p_.one.idle, "a proxy's turn that finds nothing to do");
    put_fixed(
        "ack_send", p_.one.acknowledge - p_.one.idle - below_send_ - of_frame(p_.one.ack_bytes),
        "a proxy's turn that sends an acknowledgement less one that finds nothing, UDP, IP, NI and bytes");
    const double more_bytes = (p_.many.frame_bytes - p_.one.frame_bytes) / (kMany - 1);
    put_fixed("deliver",
              (p_.many.receive - p_.one.receive) / (kMany - 1) - (ni_byte() + p_.bytes.sum) * more_bytes -
                  deliver_byte() * kShort,
              "a turn that receives five records of 64 bytes less one that receives one, less their bytes");
    put_fixed("window_receive",
              p_.one.receive - below_receive_ - of_frame(p_.one.frame_bytes) - times_.at("deliver").ns -
                  deliver_byte() * kShort,
              "a proxy's turn that receives 64 bytes, less NI, IP, UDP, bytes and delivery");
    put_fixed(
        "ack_receive", p_.one.acknowledged - below_receive_ - of_frame(p_.one.ack_bytes),
        "a proxy's turn that takes in an acknowledgement and takes back the message, less NI, IP, UDP and "
        "bytes");
  }
  void put_wire() {
    put_fixed("latency", p_.wire.latency,
              "64 bytes between two threads on two processors over the shm wire, less what one thread takes");
    put("wire_byte", p_.wire.byte, "4096 bytes between two threads less 64, less what one thread takes");
  }

  const Parts& p_;
  const double send_byte_, receive_byte_;  // of a turn
  const double below_send_, below_receive_;
  StageTimes times_;
};

}  // namespace

Result<StageTimes> time_stages(unsigned samples) {
  CHECK_GE(samples, 10u);
  const Result<Parts> parts = time_parts(samples);
  if (!parts) return parts.error();
  return StageTable(*parts).all();
}

}  // namespace braid::bench
