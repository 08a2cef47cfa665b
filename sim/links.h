// The links of a virtual network, and what happens to a frame on its way over them: it may be cut off, wait for
// its turn, be lost, changed, delayed or duplicated. Links only compute; whoever sends a frame schedules its
// arrivals.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "sim/faults.h"
#include "sim/link.h"

namespace braid::sim {

struct ProxyAddress {
  unsigned cluster = 0;
  unsigned proxy = 0;
  auto operator<=>(const ProxyAddress&) const = default;
};

// Where a frame leaves, or arrives.
struct NetworkEnd {
  ProxyAddress at;
  unsigned ni = 0;  // of the cluster
};

// The fate of one frame on a link.
struct Passage {
  enum class Lost : std::uint8_t {
    kNot,
    kPathCut,    // these two, and the next, do not even reach the link
    kNiDown,     // one of the two NIs
    kQueueFull,  // or the frame is too long
    kCut,        // of the link, for some time
    kByChance,
  };
  Lost lost = Lost::kNot;
  bool has_waited = false;                          // the link was clogged
  bool is_corrupted = false;                        // the frame's bytes are changed
  bool is_delayed = false;                          // on top of the link's own delay
  unsigned copies = 0;                              // that arrive
  std::array<Instant, Fate::kMaxCopies> arrives{};  // by copy; the first is the frame itself
  // Valid unless the frame is lost before the link: its turn came, its last bit left.
  Instant begins;
  Instant sent;

  bool used_link() const { return lost == Lost::kNot || lost == Lost::kCut || lost == Lost::kByChance; }
};
// For a person; empty for kNot.
const char* to_string(Passage::Lost lost);

struct LinksConfig {
  enum class Layout : std::uint8_t {
    kOfNi,    // one out of each NI, to all other clusters
    kOfPair,  // one out of each NI to each other cluster
  };
  Layout layout = Layout::kOfNi;
  unsigned clusters = 2;
  unsigned nis = 1;    // of each cluster; NI i reaches NI i of the others
  LinkConfig link{};   // each
  FaultConfig faults;  // of each
};

class Links {
 public:
  // Calls `next_seed` once for each link.
  Links(const LinksConfig& config, const std::function<std::uint64_t()>& next_seed);

  // A frame leaves at `now`, which never goes back from one call to the next. The frame's bytes are changed
  // where it is corrupted: of IP packets alone, since ARP has no checksum and a real wire's FCS would catch it.
  Passage send(Instant now, const NetworkEnd& from, const NetworkEnd& to, MutableBytes frame);

  // Until then nothing passes: one cluster to another over an NI's link, which the frame uses all the same
  // (with kOfNi: to any other); one proxy to another over whatever NI; to and from an NI. Instant::never(): until
  // mended. A shorter cut takes nothing from a longer one.
  void cut_link(unsigned from, unsigned to, unsigned ni, Instant until);
  void cut_path(const ProxyAddress& from, const ProxyAddress& to, Instant until);
  void cut_ni(unsigned cluster, unsigned ni, Instant until);
  void mend_path(const ProxyAddress& from, const ProxyAddress& to) { cut_paths_.erase({from, to}); }
  void mend_paths() { cut_paths_.clear(); }
  void mend_ni(unsigned cluster, unsigned ni) { ni_cut_until_[cluster * config_.nis + ni] = Instant(); }
  bool is_ni_up(Instant now, unsigned cluster, unsigned ni) const {
    return ni_cut_until_[cluster * config_.nis + ni] <= now;
  }
  // All links are good and all NIs up from now on. Paths that are cut stay so.
  void stop_faults();

 private:
  struct Line {
    Link link;
    FaultModel faults;
  };
  Line& line(unsigned from, unsigned to, unsigned ni) {
    return config_.layout == LinksConfig::Layout::kOfNi
               ? lines_[from * config_.nis + ni]
               : lines_[(from * config_.clusters + to) * config_.nis + ni];
  }
  static bool clog(Instant now, Line& line);
  static void harm(Instant now, Line& line, Instant arrives, MutableBytes frame, Passage* passage);
  Passage::Lost cut_off(Instant now, const NetworkEnd& from, const NetworkEnd& to) const;

  const LinksConfig config_;
  std::vector<Line> lines_;
  std::vector<Instant> ni_cut_until_;                                   // by cluster, then NI
  bool any_ni_cut_ = false;                                             // so far
  std::map<std::pair<ProxyAddress, ProxyAddress>, Instant> cut_paths_;  // from, to: until then
};

}  // namespace braid::sim
