#include "proxy/nic/ethdev.h"

#include <fmt/core.h>
#include <linux/membarrier.h>
#include <rte_alarm.h>
#include <rte_bus_vdev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"
#include "base/counters.h"

namespace braid::proxy {
namespace {

constexpr std::string_view kMemif = "net_memif";
constexpr std::string_view kAfPacket = "net_af_packet";

// The software drivers copy frames into rings of their own, so mbufs are needed only for what a queue has
// lent out (2 bursts), what the driver holds during a call (1 burst) and the owner's cache (1.5 times its
// size): 192.
constexpr unsigned kMbufsPerQueue = 511;  // one less than a power of two suits the pool's ring
constexpr unsigned kMbufCache = 64;
// In ordinary memory no mbuf crosses a page, so each takes 4 KiB; the caches of all possible lcores take 1.1
// MiB.
constexpr unsigned kMibPerQueue = 4;
// Ports and control channels: 16 ports of one queue start with 52 MiB in all, so this is spare.
constexpr unsigned kMibBase = 16;
constexpr std::uint16_t kDescriptors = 512;

// ---------------------------------------------------------------------------------------------------------------
// The gate between the queues' owners and DPDK's interrupt thread, which unmaps a memif's rings when its peer
// goes.
//
//   owner:      inside = true; fence; unmaps or link changed, and link down? leave, else burst;
//               inside = false
//   interrupt:  link = down; ++unmaps; fence; wait until no owner is inside; unmap (memif_disconnect())
//
// Either the owner sees the count changed, and then the link down, or the interrupt thread sees the owner
// inside and waits. To ask DPDK for the link costs several calls, so an owner that found it up asks again
// only when something was unmapped, by whichever port. It pays nothing for its fence, which only the compiler
// heeds: the interrupt thread, which comes by once in a link's life, has the kernel put a full one into every
// running thread of the process (membarrier). Where the kernel does not do that both are locked instructions.

struct alignas(64) Gate {
  std::atomic<bool> inside{false};
};

constexpr unsigned kMaxGates = 1024;
Gate g_gates[kMaxGates];
std::atomic<unsigned> g_gates_used{0};
std::atomic<std::uint64_t> g_unmaps{0};

// Set before the first gate is used.
bool g_kernel_fences = false;

void choose_fences() {
  g_kernel_fences = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace
}  // namespace braid::proxy

// The memif driver is linked with its munmap() renamed to this (proxy/nic/CMakeLists.txt).
extern "C" int braid_memif_unmap(void* memory, std::size_t bytes) {
  using namespace braid::proxy;
  const unsigned used = g_gates_used.load();
  g_unmaps.fetch_add(1);  // the fence, this thread's
  if (g_kernel_fences) CHECK_EQ(::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), 0);
  for (unsigned i = 0; i < used; ++i) {
    // A burst lasts microseconds, unless its thread was descheduled in it.
    while (g_gates[i].inside.load(std::memory_order_acquire)) ::usleep(20);
  }
  return ::munmap(memory, bytes);
}

namespace braid::proxy {
namespace {

// ---------------------------------------------------------------------------------------------------------------
// Threads: DPDK's mbuf caches belong to its "lcores", so a thread of ours asks for a number of its own.
// Without one (128 exist) everything works, more slowly.

class DpdkThread {
 public:
  static void join() {
    if (rte_lcore_id() == LCORE_ID_ANY) {
      thread_local DpdkThread self;
    }
  }

 private:
  DpdkThread() : joined_(rte_thread_register() == 0) {}
  ~DpdkThread() {
    if (joined_) rte_thread_unregister();
  }
  const bool joined_;
};

// ---------------------------------------------------------------------------------------------------------------

class EthdevQueue final : public NicQueue {
 public:
  EthdevQueue(std::uint16_t port, std::uint16_t index, rte_mempool* pool, Gate* gate,
              std::atomic<unsigned>* alive)
      : port_(port), index_(index), pool_(pool), gate_(gate), alive_(alive) {
    alive_->fetch_add(1);
  }
  ~EthdevQueue() override {
    rte_pktmbuf_free_bulk(received_.data(), received_count_);
    rte_pktmbuf_free_bulk(reserved_.data(), reserved_count_);
    alive_->fetch_sub(1);
  }

  std::size_t receive(std::span<MutableBytes> frames) override {
    DpdkThread::join();
    const std::size_t wanted = std::min(frames.size(), kMaxBurst);
    give_back_lent();
    // Vector drivers deliver nothing to a burst of less than their own, so ask for a full one and keep the
    // rest.
    if (received_count_ == 0) received_count_ = poll();
    std::size_t filled = 0;
    while (filled < wanted && lent_count_ < received_count_) {
      rte_mbuf* const mbuf = received_[lent_count_++];
      if (rte_pktmbuf_linearize(mbuf) != 0) continue;  // no room to join its segments: lost, as on a bad wire
      frames[filled++] = MutableBytes(rte_pktmbuf_mtod(mbuf, std::byte*), rte_pktmbuf_data_len(mbuf));
    }
    return filled;
  }

  std::size_t reserve(std::span<TxFrame> frames) override {
    DpdkThread::join();
    const auto wanted = static_cast<unsigned>(std::min(frames.size(), kMaxBurst));
    if (reserved_count_ < wanted &&
        rte_pktmbuf_alloc_bulk(pool_, reserved_.data() + reserved_count_, wanted - reserved_count_) == 0) {
      for (; reserved_count_ < wanted; ++reserved_count_)
        reserved_data_[reserved_count_] = rte_pktmbuf_mtod(reserved_[reserved_count_], std::byte*);
    }
    const unsigned offered = std::min(wanted, reserved_count_);
    for (unsigned i = 0; i < offered; ++i)
      frames[i] = {.data = reserved_data_[i], .capacity = kEthdevMaxFrameBytes, .length = 0};
    return offered;
  }

  void commit(std::span<const TxFrame> frames) override {
    if (frames.empty()) return;
    DpdkThread::join();
    const auto count = static_cast<std::uint16_t>(frames.size());
    CHECK_LE(count, reserved_count_);
    for (unsigned i = 0; i < count; ++i) {
      rte_mbuf* const mbuf = reserved_[i];
      CHECK_EQ(static_cast<const void*>(frames[i].data), static_cast<const void*>(reserved_data_[i]));
      CHECK_GT(frames[i].length, 0u);
      CHECK_LE(frames[i].length, kEthdevMaxFrameBytes);
      mbuf->data_len = static_cast<std::uint16_t>(frames[i].length);
      mbuf->pkt_len = frames[i].length;
    }
    std::uint16_t sent = 0;
    if (enter()) {
      sent = rte_eth_tx_burst(port_, index_, reserved_.data(), count);
      leave();
    }
    rte_pktmbuf_free_bulk(reserved_.data() + sent, static_cast<unsigned>(count - sent));
    drops_.add(static_cast<std::uint64_t>(count - sent));
    std::copy(reserved_.begin() + count, reserved_.begin() + reserved_count_, reserved_.begin());
    std::copy(reserved_data_.begin() + count, reserved_data_.begin() + reserved_count_,
              reserved_data_.begin());
    reserved_count_ -= count;
  }

  bool link_up() const override {
    rte_eth_link link{};
    return rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  }
  std::uint32_t max_frame_bytes() const override { return kEthdevMaxFrameBytes; }
  std::uint64_t transmit_drops() const override { return drops_.get(); }

 private:
  // Ports without a gate need no look at the link: their driver keeps its memory while the port runs.
  bool enter() {
    if (gate_ == nullptr) return true;
    if (g_kernel_fences) {
      gate_->inside.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      gate_->inside.exchange(true);
    }
    const std::uint64_t unmaps = g_unmaps.load(std::memory_order_acquire);
    if (was_up_ && unmaps == unmaps_seen_) return true;
    unmaps_seen_ = unmaps;
    was_up_ = link_up();
    if (!was_up_) leave();
    return was_up_;
  }
  void leave() {
    if (gate_ != nullptr) gate_->inside.store(false, std::memory_order_release);
  }
  unsigned poll() {
    if (!enter()) return 0;
    const std::uint16_t n = rte_eth_rx_burst(port_, index_, received_.data(), kMaxBurst);
    leave();
    return n;
  }
  void give_back_lent() {
    if (lent_count_ == 0) return;
    rte_pktmbuf_free_bulk(received_.data(), lent_count_);
    std::copy(received_.begin() + lent_count_, received_.begin() + received_count_, received_.begin());
    received_count_ -= lent_count_;
    lent_count_ = 0;
  }

  const std::uint16_t port_;
  const std::uint16_t index_;
  rte_mempool* const pool_;
  Gate* const gate_;
  std::atomic<unsigned>* const alive_;
  bool was_up_ = false;  // the link, when unmaps_seen_ was read
  std::uint64_t unmaps_seen_ = 0;
  // | lent to the caller | received, not yet given out |
  //                  lent_count_                 received_count_
  std::array<rte_mbuf*, kMaxBurst> received_{};
  unsigned lent_count_ = 0;
  unsigned received_count_ = 0;
  // Buffers on offer, in order, and where their bytes lie: mbufs lie pages apart, in the same lines of the
  // cache, so to look into all that are offered costs more than to send the few that are used.
  std::array<rte_mbuf*, kMaxBurst> reserved_{};
  std::array<std::byte*, kMaxBurst> reserved_data_{};
  unsigned reserved_count_ = 0;
  Counter drops_;
};

// ---------------------------------------------------------------------------------------------------------------

// The EAL pins the thread that starts it and would run its own threads on the rest; so it is told of one
// lcore that may run wherever this process may.
std::string lcores_of(const cpu_set_t& cpus) {
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) list += fmt::format("{}{}", list.empty() ? "" : ",", cpu);
  }
  return fmt::format("0@({})", list);
}

Result<void> start_eal(const EthdevOptions& options) {
  static std::atomic<bool> started{false};
  if (started.exchange(true))
    return error("DPDK: it starts only once in a process: use the ports that it has");

  choose_fences();
  const auto queues = static_cast<unsigned>(options.vdevs.size()) * options.queues;
  const unsigned memory_mib = options.memory_mib != 0 ? options.memory_mib : kMibBase + queues * kMibPerQueue;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) {
    return error("DPDK: cannot read the CPU affinity: {}", std::strerror(errno));
  }
  std::vector<std::string> arguments{
      "braid",
      "--no-huge",       // ordinary memory: no privileges, nothing to reserve beforehand
      "--no-pci",        // the ports are those of the configuration
      "--no-shconf",     // nothing left in the file system when we are killed
      "--no-telemetry",  // no socket and no thread for it; the daemon has its own counters
      "--lcores",       lcores_of(cpus),     "-m",          fmt::format("{}", memory_mib),
      "--file-prefix",  options.file_prefix, "--log-level", "*:error",
  };
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  const int parsed = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  const int failure = rte_errno;
  ::sched_setaffinity(0, sizeof cpus, &cpus);
  if (parsed < 0) {
    return error(
        "DPDK: the EAL did not start ({}); its own message stands above. If memory is short lower memory_mib "
        "({})",
        rte_strerror(failure), memory_mib);
  }
  // The EAL makes it even though nothing will lie in it.
  ::rmdir(rte_eal_get_runtime_dir());
  return {};
}

struct Port {
  std::string vdev;  // as configured
  std::uint16_t id;
  bool memif;
  bool memif_client;
  std::vector<rte_mempool*> pools;  // by queue
  std::vector<Gate*> gates;         // by queue; null where none is needed
  std::vector<bool> taken;          // by queue

  std::string name() const { return vdev.substr(0, vdev.find(',')); }
  bool link_up() const {
    rte_eth_link link{};
    return rte_eth_link_get_nowait(id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  }
};

Gate* new_gate() {
  const unsigned next = g_gates_used.load(std::memory_order_relaxed);
  CHECK_LT(next, kMaxGates);
  g_gates_used.store(next + 1, std::memory_order_release);
  return &g_gates[next];
}

Error port_error(const Port& port, const char* what, int code) {
  return error("DPDK: vdev '{}': {}: {}", port.vdev, what, rte_strerror(-code));
}

bool hashes_udp(std::uint64_t hash_functions) {
  return (hash_functions & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
}

Result<Port> configure(const std::string& vdev, unsigned queues) {
  Port port{.vdev = vdev,
            .id = 0,
            .memif = vdev.starts_with(kMemif),
            .memif_client = vdev.starts_with(kMemif) && vdev.find("role=client") != std::string::npos,
            .pools = {},
            .gates = {},
            .taken = std::vector<bool>(queues)};
  const std::string name = port.name();
  const std::string device_arguments = name.size() == vdev.size() ? "" : vdev.substr(name.size() + 1);
  if (const int made = rte_vdev_init(name.c_str(), device_arguments.c_str()); made != 0) {
    return port_error(
        port, "cannot be made (unknown driver, wrong argument, no such interface, or no CAP_NET_RAW)", made);
  }
  if (const int found = rte_eth_dev_get_port_by_name(name.c_str(), &port.id); found != 0) {
    return port_error(port, "made no port", found);
  }
  rte_eth_dev_info info{};
  if (const int done = rte_eth_dev_info_get(port.id, &info); done != 0)
    return port_error(port, "does not say what it can do", done);
  rte_eth_conf conf{};
  if (queues > 1 && hashes_udp(info.flow_type_rss_offloads)) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
  }
  const auto n = static_cast<std::uint16_t>(queues);
  if (const int done = rte_eth_dev_configure(port.id, n, n, &conf); done != 0) {
    return port_error(port, "cannot have that many queues", done);
  }
  for (std::uint16_t q = 0; q < n; ++q) {
    const std::string pool_name = fmt::format("braid_{}_{}", port.id, q);
    rte_mempool* const pool = rte_pktmbuf_pool_create(pool_name.c_str(), kMbufsPerQueue, kMbufCache, 0,
                                                      RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (pool == nullptr) return port_error(port, "no memory for its packets: raise memory_mib", -rte_errno);
    port.pools.push_back(pool);
    port.gates.push_back(port.memif ? new_gate() : nullptr);
    int done = rte_eth_rx_queue_setup(port.id, q, kDescriptors, SOCKET_ID_ANY, nullptr, pool);
    if (done != 0) return port_error(port, "receive queue", done);
    done = rte_eth_tx_queue_setup(port.id, q, kDescriptors, SOCKET_ID_ANY, nullptr);
    if (done != 0) return port_error(port, "transmit queue", done);
  }
  return port;
}

// A started port's flow rules and its hash. What it makes stays with the port, and goes with it.
class PortSteering final : public SteerablePort {
 public:
  PortSteering(std::uint16_t port, unsigned queues) : port_(port), queues_(queues) {}

  Result<void> add_flow_rule(std::uint16_t udp_port, unsigned queue) override {
    rte_flow_attr attributes{};
    attributes.ingress = 1;
    rte_flow_item_udp to{};
    to.hdr.dst_port = rte_cpu_to_be_16(udp_port);
    rte_flow_item_udp mask{};
    mask.hdr.dst_port = 0xffff;
    rte_flow_item pattern[4] = {};
    pattern[0].type = RTE_FLOW_ITEM_TYPE_ETH;
    pattern[1].type = RTE_FLOW_ITEM_TYPE_IPV4;
    pattern[2].type = RTE_FLOW_ITEM_TYPE_UDP;
    pattern[2].spec = &to;
    pattern[2].mask = &mask;
    pattern[3].type = RTE_FLOW_ITEM_TYPE_END;
    const rte_flow_action_queue queue_index{.index = static_cast<std::uint16_t>(queue)};
    rte_flow_action actions[2] = {};
    actions[0].type = RTE_FLOW_ACTION_TYPE_QUEUE;
    actions[0].conf = &queue_index;
    actions[1].type = RTE_FLOW_ACTION_TYPE_END;
    rte_flow_error failure{};
    rte_flow* const rule = rte_flow_create(port_, &attributes, pattern, actions, &failure);
    if (rule == nullptr) {
      const char* const why = failure.message != nullptr ? failure.message : rte_strerror(rte_errno);
      return error("the port takes no rule that brings UDP port {} to queue {}: {}", udp_port, queue, why);
    }
    rules_.push_back(rule);
    return {};
  }

  void remove_flow_rules() override {
    for (rte_flow* const rule : rules_) {
      rte_flow_error ignored{};  // a rule that stays brings packets where they belong
      (void)rte_flow_destroy(port_, rule, &ignored);
    }
    rules_.clear();
  }

  Result<RssHash> rss_hash() override {
    rte_eth_dev_info info{};
    if (const int done = rte_eth_dev_info_get(port_, &info); done != 0)
      return error("the port does not say what it can do: {}", rte_strerror(-done));
    RssHash hash;
    hash.key.resize(info.hash_key_size != 0 ? info.hash_key_size : kUsualKeyBytes);
    rte_eth_rss_conf conf{};
    conf.rss_key = hash.key.data();
    conf.rss_key_len = static_cast<std::uint8_t>(hash.key.size());
    if (const int done = rte_eth_dev_rss_hash_conf_get(port_, &conf); done != 0)
      return error("the port does not tell its hash key: {}", rte_strerror(-done));
    if (!hashes_udp(conf.rss_hf)) return error("the port does not hash UDP ports");
    if (info.reta_size == 0) return error("the port has no redirection table that can be read");
    Result<std::vector<std::uint16_t>> table = read_table(info.reta_size);
    if (table && !names_every_queue(*table)) {
      if (Result<void> spread = spread_table(info.reta_size); !spread) return spread.error();
      table = read_table(info.reta_size);
    }
    if (!table) return table.error();
    if (!names_every_queue(*table)) return error("the port's redirection table leaves queues out");
    hash.table = std::move(table).value();
    return hash;
  }

 private:
  static constexpr std::size_t kUsualKeyBytes = 40;
  using Groups = std::vector<rte_eth_rss_reta_entry64>;

  static Groups groups(std::uint16_t entries) {
    Groups all((entries + RTE_ETH_RETA_GROUP_SIZE - 1u) / RTE_ETH_RETA_GROUP_SIZE);
    for (rte_eth_rss_reta_entry64& group : all) group.mask = ~std::uint64_t{0};
    return all;
  }
  static std::uint16_t& entry(Groups& groups, unsigned i) {
    return groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
  }
  Result<std::vector<std::uint16_t>> read_table(std::uint16_t entries) const {
    Groups all = groups(entries);
    if (const int done = rte_eth_dev_rss_reta_query(port_, all.data(), entries); done != 0)
      return error("the port's redirection table cannot be read: {}", rte_strerror(-done));
    std::vector<std::uint16_t> table;
    for (unsigned i = 0; i < entries; ++i) table.push_back(entry(all, i));
    return table;
  }
  Result<void> spread_table(std::uint16_t entries) const {
    Groups all = groups(entries);
    for (unsigned i = 0; i < entries; ++i) entry(all, i) = static_cast<std::uint16_t>(i % queues_);
    if (const int done = rte_eth_dev_rss_reta_update(port_, all.data(), entries); done != 0)
      return error("the port's redirection table leaves queues out, and cannot be written: {}",
                   rte_strerror(-done));
    return {};
  }
  bool names_every_queue(const std::vector<std::uint16_t>& table) const {
    for (unsigned q = 0; q < queues_; ++q)
      if (std::find(table.begin(), table.end(), q) == table.end()) return false;
    return true;
  }

  const std::uint16_t port_;
  const unsigned queues_;
  std::vector<rte_flow*> rules_;
};

Result<void> start_port(const Port& port) {
  if (const int done = rte_eth_dev_start(port.id); done != 0)
    return port_error(port, "cannot be started", done);
  // The stack has addresses of its own making. Drivers that cannot filter (memif) need not be told.
  (void)rte_eth_promiscuous_enable(port.id);
  return {};
}

// Runs `action` in the EAL's interrupt thread and waits for it. A memif takes itself down there when its peer
// goes; taking it down from here at the same time would free its regions twice.
template <class Action>
void in_interrupt_thread(Action action) {
  struct Call {
    Action action;
    std::atomic<bool> done{false};
  } call{std::move(action)};
  const auto run = [](void* argument) {
    auto* const self = static_cast<Call*>(argument);
    self->action();
    self->done.store(true, std::memory_order_release);
  };
  CHECK_EQ(rte_eal_alarm_set(1, run, &call), 0);
  while (!call.done.load(std::memory_order_acquire)) ::usleep(100);
}

// A client that comes before its server's port is started is turned away, so it tries again.
Result<void> connect_client(const Port& port, Duration timeout) {
  const Duration kAnswer = Duration::ms(100);  // a server that is there answers within a few milliseconds
  const Instant give_up = monotonic_now() + timeout;
  do {
    if (rte_eth_dev_start(port.id) == 0) {
      const Instant next_try = monotonic_now() + kAnswer;
      while (monotonic_now() < next_try) {
        if (port.link_up()) {
          // An empty burst lays out the buffers that the server sends into.
          for (std::uint16_t q = 0; q < port.pools.size(); ++q) rte_eth_rx_burst(port.id, q, nullptr, 0);
          return {};
        }
        ::usleep(500);
      }
      in_interrupt_thread([&port] { rte_eth_dev_stop(port.id); });
    }
    ::usleep(2000);
  } while (monotonic_now() < give_up);
  return error(
      "DPDK: vdev '{}': no server answered within {} ms: is the other daemon running, with as many queues?",
      port.vdev, timeout.ns() / 1'000'000);
}

}  // namespace

Result<void> EthdevOptions::validate() const {
  if (vdevs.empty()) return error("DPDK: no vdev named, so no port to use");
  if (queues < 1 || queues > 256) return error("DPDK: {} queues; 1 to 256 are possible", queues);
  if (vdevs.size() * queues > kMaxGates) {
    return error("DPDK: {} ports of {} queues are more than {} queues in all", vdevs.size(), queues,
                 kMaxGates);
  }
  if (file_prefix.empty() || file_prefix.find('/') != std::string::npos) {
    return error("DPDK: file_prefix '{}' must be a plain name", file_prefix);
  }
  for (const std::string& vdev : vdevs) {
    if (vdev.find("zero-copy=yes") != std::string::npos) {
      return error(
          "DPDK: vdev '{}': zero-copy needs memory in files, which --no-huge has not: say zero-copy=no",
          vdev);
    }
  }
  return {};
}

std::string memif_vdev(unsigned index, MemifRole role, const std::string& socket) {
  return fmt::format("{}{},role={},id=0,socket-abstract=yes,socket={},zero-copy=no,bsize=2048", kMemif, index,
                     role == MemifRole::kServer ? "server" : "client", socket);
}

std::string af_packet_vdev(unsigned index, const std::string& interface, unsigned queues) {
  // A frame of the ring holds the kernel's header and 1514 bytes; 2048 of them fit an mbuf and two a page.
  return fmt::format("{}{},iface={},qpairs={},blocksz=4096,framesz=2048,framecnt=512", kAfPacket, index,
                     interface, queues);
}

struct EthdevPorts::State {
  unsigned queues = 0;
  std::vector<Port> ports;
  std::atomic<unsigned> queues_alive{0};

  ~State() {
    CHECK_EQ(queues_alive.load(), 0u);
    for (const Port& port : ports) {
      if (port.memif) {
        in_interrupt_thread([&port] { rte_eth_dev_stop(port.id); });
      } else {
        rte_eth_dev_stop(port.id);
        rte_eth_dev_close(port.id);
      }
    }
    // The EAL stays as it is. It cannot be started again in this process, and its interrupt thread lives on
    // with a memif server's listening socket, so neither that port nor the EAL's memory may be taken from
    // under it.
  }
};

EthdevPorts::EthdevPorts(std::unique_ptr<State> state) : state_(std::move(state)) {}
EthdevPorts::~EthdevPorts() = default;

Result<std::unique_ptr<EthdevPorts>> EthdevPorts::start(const EthdevOptions& options) {
  if (Result<void> valid = options.validate(); !valid) return valid.error();
  if (Result<void> eal = start_eal(options); !eal) return eal.error();
  auto state = std::make_unique<State>();
  state->queues = options.queues;
  for (const std::string& vdev : options.vdevs) {
    Result<Port> port = configure(vdev, options.queues);
    if (!port) return port.error();
    state->ports.push_back(std::move(port).value());
  }
  // Servers only begin to listen, so when all daemons start theirs before they wait for others, none waits
  // for ever.
  for (const Port& port : state->ports) {
    if (port.memif_client) continue;
    if (Result<void> started = start_port(port); !started) return started.error();
  }
  for (const Port& port : state->ports) {
    if (!port.memif_client) continue;
    if (Result<void> connected = connect_client(port, options.connect_timeout); !connected)
      return connected.error();
  }
  return std::unique_ptr<EthdevPorts>(new EthdevPorts(std::move(state)));
}

unsigned EthdevPorts::ports() const {
  return static_cast<unsigned>(state_->ports.size());
}
unsigned EthdevPorts::queues() const {
  return state_->queues;
}

std::unique_ptr<NicQueue> EthdevPorts::queue(unsigned port, unsigned index) {
  CHECK_LT(port, ports());
  CHECK_LT(index, queues());
  Port& chosen = state_->ports[port];
  CHECK(!chosen.taken[index]);
  chosen.taken[index] = true;
  return std::make_unique<EthdevQueue>(chosen.id, static_cast<std::uint16_t>(index), chosen.pools[index],
                                       chosen.gates[index], &state_->queues_alive);
}

std::array<std::byte, 6> EthdevPorts::mac_address(unsigned port) const {
  CHECK_LT(port, ports());
  rte_ether_addr address{};
  CHECK_EQ(rte_eth_macaddr_get(state_->ports[port].id, &address), 0);
  std::array<std::byte, 6> bytes;
  std::memcpy(bytes.data(), address.addr_bytes, bytes.size());
  return bytes;
}

Result<Steered> EthdevPorts::steer(unsigned port, Steering wanted, std::uint16_t first_udp_port) {
  CHECK_LT(port, ports());
  const Port& chosen = state_->ports[port];
  PortSteering steering(chosen.id, queues());
  Result<Steered> steered = braid::proxy::steer(steering, wanted, first_udp_port, queues());
  if (!steered) return error("DPDK: vdev '{}': {}", chosen.vdev, steered.error().text);
  return steered;
}

Result<void> EthdevPorts::wait_for_link(Duration timeout) const {
  const Instant give_up = monotonic_now() + timeout;
  for (;;) {
    std::string down;
    for (const Port& port : state_->ports) {
      if (!port.link_up()) down += fmt::format(" '{}'", port.vdev);
    }
    if (down.empty()) return {};
    if (monotonic_now() >= give_up) {
      return error("DPDK: no link within {} ms on{}: is the other side running?", timeout.ns() / 1'000'000,
                   down);
    }
    ::usleep(1000);
  }
}

}  // namespace braid::proxy
