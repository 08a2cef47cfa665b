// Which station, behind which link, has an IPv4 address: a bounded table of static entries and of what ARP
// says.
//
// Pure: frames are parsed and written by the caller, time is handed in, nothing is allocated after
// construction.
//
//      lookup()           answer                 refresh time, used             answer
//   ------------> kAsking ------> kKnown -------------------------> kRefreshing -----> kKnown
//                 |   ^             | refresh time, unused: waits    |
//        not used |   |             | until it expires               | expires without an answer
//                 v   |             v                                |
//              (gone) |           (gone)                             |
//                     +----------------------------------------------+
//
//      kKnown, kRefreshing:                        answer of the known station
//        another station claims the address ──► kContested ──────────────────────► kKnown, the claim is refused
//                                                  │ none for `contest`: kKnown, at the claiming station
//        doubt(): nothing comes back ──► kDoubted ── answer of another station: kKnown, there
//                                           │ no doubt for `hold`: kKnown
//
// All but kAsking may be sent to. kStatic entries never change. Requests are broadcast on the link in kAsking and
// kDoubted, and sent to the known station alone in kRefreshing and kContested. ARP proves nothing, so a claim
// changes an entry only if the known station does not answer, and an entry that leads nowhere is asked for anew.
//
// Every link has an address of its own, and neighbours of its own: the same address behind two links is two
// entries. Links may also share one address (wires that each lead to one peer).
//
// A default gateway is a matter of choosing the next hop before lookup(); the table holds next hops only.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "stack/wire/addresses.h"
#include "stack/wire/arp.h"

namespace braid::stack {

struct NeighboursConfig {
  // Entries, static ones included. A lookup in a full table evicts the dynamic entry that was looked up
  // least recently; an unsolicited packet evicts none.
  std::uint32_t capacity = 256;
  // Between requests for one address: the first wait is long against a LAN's round trip, the last one loads
  // it little.
  Duration first_retry = Duration::ms(10);
  Duration last_retry = Duration::s(1);
  // An answer is valid for so long (RFC 1122, 2.3.2.1: in the order of a minute).
  Duration lifetime = Duration::s(60);
  // An entry in use is refreshed so long before it expires; room for several requests at the slowest rate.
  Duration refresh_before_end = Duration::s(5);
  // A known station that does not answer for so long loses its address to the one that claims it. Shorter than a
  // path's death, and six requests.
  Duration contest = Duration::ms(500);
  // After a contest or a change of station nothing is changed for so long, and a doubt lasts so long: a new station
  // has to have time to prove itself, which takes some of the slowest hellos.
  Duration hold = Duration::s(1);
  // Between two conflicts that are handed out by take_conflict().
  Duration conflict_interval = Duration::s(10);
  // An address that did not answer and was not looked up for so long is forgotten.
  Duration forget_after = Duration::s(10);
  // Replies that wait to be sent; one more is dropped and counted, and its requester repeats it.
  std::uint32_t reply_queue = 16;
};

// Our own addresses on one link.
struct LocalLink {
  LinkId link;
  MacAddress mac;
  Ipv4Address address;
  // Broadcast it at the start (RFC 5227, 2.3), so that hosts that know another station by our address
  // learn ours.
  bool announce = false;
};

enum class NeighbourState : std::uint8_t {
  kAbsent,
  kAsking,
  kKnown,
  kRefreshing,
  kContested,
  kDoubted,
  kStatic,
};

// Two stations claim an address.
struct AddressConflict {
  Ipv4Address address;
  MacAddress holder;    // which is sent to, or ours
  MacAddress claimant;  // which is not
  bool ours = false;
  bool operator==(const AddressConflict&) const = default;
};

// An ARP packet and the Ethernet address that it goes to.
struct OutgoingArp {
  MacAddress destination;
  ArpPacket packet;
  bool operator==(const OutgoingArp&) const = default;
};

// The effect of an ARP packet.
enum class ArpArrival : std::uint8_t {
  kLearned,     // an address was resolved, or a new neighbour noted
  kConfirmed,   // nothing new, but known for longer
  kMoved,       // a known address has another station now
  kContested,   // another station claims a known address; the known one is asked, or answered recently
  kNotForUs,    // about unknown stations: neither known nor asking us
  kStaticKept,  // contradicts a static entry, which stands
  kTableFull,   // new, and no free entry to note it (a request is still answered)
  kOurAddress,  // another station claims our address
};

class Neighbours {
 public:
  static constexpr std::size_t kMaxLinks = 64;

  struct Stats {
    std::uint64_t requests_sent = 0;
    std::uint64_t announcements_sent = 0;
    std::uint64_t replies_sent = 0;
    std::uint64_t replies_dropped = 0;
    std::uint64_t evicted = 0;  // forgotten to make room
    std::uint64_t no_room = 0;  // not entered: the table is full
    std::uint64_t address_conflicts =
        0;                    // claims of our address, of a static one, and of one whose station answers
    std::uint64_t moved = 0;  // addresses that have another station now
  };

  // One per stack, owned by its worker. At most kMaxLinks links, each named once.
  Neighbours(const NeighboursConfig& config, std::span<const LocalLink> links);

  // An entry that neither expires nor learns from ARP; replaces what was there. False when the table is full of
  // static entries.
  [[nodiscard]] bool add_static(LinkId link, Ipv4Address ip, const MacAddress& mac);

  // Which station to send to for `ip` behind `link` now. If that is not known, the table begins to ask, and
  // nullopt is the answer until a reply came: the caller keeps its packet and looks again. nullopt also
  // for addresses that no single other host has.
  [[nodiscard]] std::optional<MacAddress> lookup(LinkId link, Ipv4Address ip, Instant now);

  // Nothing comes back from `ip` behind `link`, which is sent to: another station may have it. Call for every packet
  // that leaves meanwhile.
  void doubt(LinkId link, Ipv4Address ip, Instant now);

  // The latest conflict, once, and at most one per conflict_interval.
  std::optional<AddressConflict> take_conflict();

  // The state of `ip` behind `link`; it does not count as a lookup.
  NeighbourState state(LinkId link, Ipv4Address ip) const;

  // An ARP packet arrived on `link`.
  [[nodiscard]] ArpArrival on_arp(Instant now, LinkId link, const ArpPacket& packet);

  // The next packet that should leave on `link` now; call for every link until nullopt.
  std::optional<OutgoingArp> poll(Instant now, LinkId link);

  // When poll() has to be called if nothing arrives and nothing is looked up. Not after now: something is ready
  // now.
  Instant next_deadline() const { return next_deadline_; }

  std::size_t size() const { return entries_.size(); }
  const Stats& stats() const { return stats_; }

 private:
  static constexpr Instant kNeverWanted = Instant::from_ns(std::numeric_limits<std::int64_t>::min());

  // An address behind a link.
  struct Key {
    std::size_t link = 0;  // by index
    Ipv4Address ip;
    constexpr auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Key key;
    MacAddress mac{};
    NeighbourState state = NeighbourState::kAsking;
    bool wanted_since_confirmed = false;
    Instant wanted = kNeverWanted;  // last lookup
    Instant confirmed{};            // last answer
    Instant asked{};                // the last round of requests began
    Instant next_round{};           // kAsking, kRefreshing: the next one does
    Duration retry{};               // and the wait after it
    bool to_ask = false;            // this round has still to go out
    MacAddress claimant{};          // kContested: who claims it
    Instant contest_ends{};         // kContested: then it is the claimant's
    Instant doubted{};              // kDoubted: the last doubt()
    Instant held_until{};           // no contest and no doubt before
  };
  struct Reply {
    std::size_t link;  // by index
    Instant since;
    MacAddress mac{};
    Ipv4Address ip;
  };

  enum class Eviction { kAllowed, kForbidden };

  std::size_t index_of(LinkId link) const;
  bool is_ours(const MacAddress& mac) const;
  bool is_ours(Ipv4Address ip) const;
  Entry* find(const Key& key);
  Entry* insert(const Key& key, Eviction eviction);
  bool evict_one();
  void start_asking(Entry& entry, NeighbourState state, Instant now);
  void begin_round(Entry& entry, Instant now);
  void confirm(Entry& entry, const MacAddress& mac, Instant now);
  void move(Entry& entry, const MacAddress& mac, Instant now);
  ArpArrival contest(Entry& entry, const MacAddress& claimant, Instant now);
  void note_conflict(Instant now, const AddressConflict& conflict);
  ArpArrival learn(Instant now, std::size_t link, const ArpPacket& packet, bool asks_us);
  void queue_reply(Instant now, std::size_t link, const ArpPacket& request);
  std::optional<OutgoingArp> take_reply(std::size_t link);
  std::optional<OutgoingArp> take_announcement(std::size_t link);
  std::optional<OutgoingArp> take_request(std::size_t link);
  // False: forget the entry.
  bool advance(Entry& entry, Instant now);
  void advance(Instant now);
  Instant expiry(const Entry& entry) const { return entry.confirmed + config_.lifetime; }
  Instant refresh_time(const Entry& entry) const { return expiry(entry) - config_.refresh_before_end; }
  Instant deadline_of(const Entry& entry) const;
  // After every change but lookup()'s marks.
  void update_deadline();
  void check() const;

  NeighboursConfig config_;
  std::vector<LocalLink> links_;
  std::vector<Entry> entries_;  // by link and address; never more than config_.capacity
  std::vector<Reply> replies_;  // oldest first; never more than config_.reply_queue
  Instant next_deadline_ = Instant::never();
  std::optional<AddressConflict> conflict_;  // not handed out yet
  Instant next_conflict_{};                  // none is noted before
  Stats stats_;
};

}  // namespace braid::stack
