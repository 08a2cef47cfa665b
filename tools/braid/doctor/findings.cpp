#include "tools/braid/doctor/findings.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/userfaultfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "dsm/live/proc_file.h"
#include "proxy/udp/udp_queue.h"
#include "stack/secure/aead.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/process.h"

namespace braid::cli {
namespace {

// Enough for the descriptors of a run's clusters on one host, and what a program opens.
constexpr std::uint64_t kFewFiles = 1024;
// Of mprotect(): the kernel's usual limit, for 256 MiB whose neighbouring pages always differ.
constexpr std::uint64_t kUsualMappings = 65530;
constexpr std::uint64_t kLittleMemory = 512u << 20;
// A program's process and its braidd with one proxy, before the heap: with less memory two of them were killed as they started, with
// 60 MiB for two. Each further proxy took 5 MiB.
constexpr std::uint64_t kClusterBytes = 32u << 20;
// Logs and captures of hosts are compared by their times.
constexpr double kClockS = 1;

constexpr const char* kWords[] = {"ok", "warning", "bad"};

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_max : 0;
}

// Linux 6.4 shows pages without permission to write; the call itself can be forbidden.
bool has_userfaultfd() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  if (major < 6 || (major == 6 && minor < 4)) return false;
  const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

std::string bytes(std::uint64_t count) {
  if (count == RLIM_INFINITY) return "unlimited";
  return count >= 1u << 20 ? fmt::format("{} MiB", count >> 20) : fmt::format("{} KiB", count >> 10);
}

Finding finding(const char* what, bool is_good, Verdict otherwise, std::string found, std::string cure) {
  return {what, is_good ? Verdict::kOk : otherwise, std::move(found),
          is_good ? std::string() : std::move(cure)};
}

}  // namespace

HostFacts read_facts() {
  const Result<std::string> daemon = find_daemon(own_folder());
  return {.processors = usable_cores(),
          .open_files = limit_of(RLIMIT_NOFILE),
          .locked_bytes = limit_of(RLIMIT_MEMLOCK),
          .memory = read_memory(),
          .mappings = dsm::number_in_file("/proc/sys/vm/max_map_count", "", 10),
          .has_userfaultfd = has_userfaultfd(),
          .receive_buffer_bytes = dsm::number_in_file("/proc/sys/net/core/rmem_max", "", 10),
          .is_root = ::geteuid() == 0,
          .has_aes = stack::has_aes_instructions(),
          .missing_daemon = daemon ? std::string() : daemon.error().text};
}

std::vector<Finding> judge(const HostFacts& facts, const HostNeeds& needs) {
  const std::uint64_t buffer = proxy::UdpQueueOptions().buffer_bytes;
  return {
      finding("braidd", facts.missing_daemon.empty(), Verdict::kBad,
              facts.missing_daemon.empty() ? "is there" : facts.missing_daemon,
              "install Braid whole on the host, or name its braid-node with --braid-node"),
      finding(
          "processors", needs.threads <= facts.processors, Verdict::kWarning,
          needs.threads == 0 ? fmt::format("{}", facts.processors)
                             : fmt::format("{}, for {} threads of compute nodes and proxies",
                                           facts.processors, needs.threads),
          "take fewer clusters, --compute or --proxies on this host: threads that share a processor wait for each other"),
      judge(facts.memory, needs.memory),
      finding("open files", facts.open_files >= kFewFiles, Verdict::kWarning,
              fmt::format("at most {}", facts.open_files == RLIM_INFINITY ? "any number"
                                                                          : std::to_string(facts.open_files)),
              fmt::format("raise the hard limit to {} or more (ulimit -Hn, limits.conf, LimitNOFILE)",
                          kFewFiles)),
      finding("locked memory", true, Verdict::kOk, bytes(facts.locked_bytes) + "; no wire but dpdk locks any",
              ""),
      finding(
          "page protection", facts.has_userfaultfd || facts.mappings > kUsualMappings, Verdict::kWarning,
          facts.has_userfaultfd ? "userfaultfd" : fmt::format("mprotect, with {} mappings", facts.mappings),
          "take Linux 6.4 or newer, or raise vm.max_map_count: a heap of more than 256 MiB may need more mappings"),
      finding("socket buffers", facts.is_root || facts.receive_buffer_bytes >= buffer, Verdict::kWarning,
              facts.is_root ? "as large as wanted (root)" : "at most " + bytes(facts.receive_buffer_bytes),
              fmt::format("sysctl -w net.core.rmem_max={0} net.core.wmem_max={0}: bursts are lost otherwise",
                          buffer)),
      finding(
          "encryption", true, Verdict::kOk,
          !needs.is_sealed ? "packets are plain: security is off, or no wire leaves the host"
          : facts.has_aes
              ? "packets are sealed, with AES-256-GCM by the processor's instructions"
              : "packets are sealed, with ChaCha20-Poly1305: the processor has no instructions for AES-256-GCM",
          ""),
  };
}

MemoryFacts read_memory() {
  return {.available_bytes = dsm::number_in_file("/proc/meminfo", "MemAvailable:", 10) << 10,
          .limit = own_memory_limit()};
}

Finding judge(const MemoryFacts& facts, const MemoryNeeds& needs) {
  const bool is_limited = facts.limit && facts.limit->free_bytes < facts.available_bytes;
  const std::uint64_t room = is_limited ? facts.limit->free_bytes : facts.available_bytes;
  std::string found = bytes(room) + (is_limited ? fmt::format(" of the {} that the cgroup permits",
                                                              bytes(facts.limit->limit_bytes))
                                                : " available");
  const std::uint64_t least = needs.clusters * kClusterBytes,
                      most = needs.clusters == 0 ? kLittleMemory : least + needs.clusters * needs.heap_bytes;
  if (needs.clusters > 0)
    found += fmt::format(
        ", for {} cluster{}, which take{} {} before the program has any, and {} with the whole heap",
        needs.clusters, needs.clusters == 1 ? "" : "s", needs.clusters == 1 ? "s" : "", bytes(least),
        bytes(most));
  std::string cure =
      is_limited
          ? "give the run more (the cgroup's memory.max or memory.limit_in_bytes; --mem of Slurm, --memory of a container)"
          : "end other programs";
  cure +=
      ", or take fewer clusters on this host or a smaller --heap-mib: the kernel kills processes that find no memory";
  Finding result = finding("memory", room >= most, Verdict::kWarning, std::move(found), std::move(cure));
  if (room < least) result.verdict = Verdict::kBad;
  return result;
}

Finding judge(const PathFacts& path, std::uint32_t mtu_bytes) {
  Finding f;
  f.what = fmt::format("UDP from {} to {}", path.from, path.to);
  if (path.heard.empty()) {
    f.verdict = Verdict::kBad;
    if (path.sent.empty()) {
      f.found = "cannot be sent: " + path.refusal;
      f.cure =
          "give the hosts addresses that reach each other, and a route between them (--hostfile, 'addresses')";
    } else {
      f.found = "nothing arrives";
      f.cure = "open UDP between the hosts in firewalls and security groups, and look at the route";
    }
    return f;
  }
  const std::uint32_t most = *std::max_element(path.heard.begin(), path.heard.end());
  f.found = fmt::format("packets of up to {} bytes arrive", most);
  if (most >= mtu_bytes) return f;
  f.verdict = Verdict::kBad;
  f.cure = fmt::format("--mtu {}: runs would send packets of {}", most, mtu_bytes);
  return f;
}

Finding judge_clock(double ahead_s, double uncertainty_s) {
  const bool is_near = std::abs(ahead_s) - uncertainty_s <= kClockS;
  return {"clock", is_near ? Verdict::kOk : Verdict::kWarning,
          fmt::format("{:+.3f} s from here, give or take {:.3f} s", ahead_s, uncertainty_s),
          is_near ? "" : "let NTP set it: times of logs and captures of different hosts do not fit together"};
}

Finding judge_version(const std::string& there, const std::string& here) {
  const bool is_same = there == here;
  return {"version", is_same ? Verdict::kOk : Verdict::kBad,
          is_same ? there : fmt::format("{}, and {} here", there, here),
          is_same ? "" : "install the same version on every host"};
}

std::string text_of(const Finding& f) {
  std::string text =
      fmt::format("  {:<8} {}: {}\n", kWords[static_cast<unsigned>(f.verdict)], f.what, f.found);
  if (!f.cure.empty()) text += fmt::format("  {:<8} {}\n", "", f.cure);
  return text;
}

void to_json(nlohmann::json& json, const Finding& f) {
  json = {{"what", f.what},
          {"verdict", kWords[static_cast<unsigned>(f.verdict)]},
          {"found", f.found},
          {"cure", f.cure}};
}

void from_json(const nlohmann::json& json, Finding& f) {
  const auto verdict = json.at("verdict").get<std::string>();
  const auto word = std::find(std::begin(kWords), std::end(kWords), verdict);
  if (word == std::end(kWords)) throw nlohmann::json::other_error::create(500, "no verdict", nullptr);
  f = {json.at("what").get<std::string>(), static_cast<Verdict>(word - std::begin(kWords)),
       json.at("found").get<std::string>(), json.at("cure").get<std::string>()};
}

}  // namespace braid::cli
