// What `braid doctor` finds: on a host, and between two. Pure: from facts to findings.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/braid/process/cgroup.h"

namespace braid::cli {

enum class Verdict : std::uint8_t {
  kOk,
  kWarning,  // runs work, and are slower or smaller than they could be
  kBad,      // runs fail
};

struct Finding {
  std::string what;  // "processors", "UDP from node1 to node2"
  Verdict verdict = Verdict::kOk;
  std::string found;
  std::string cure;  // what to change; empty: nothing
};

struct MemoryFacts {
  std::uint64_t available_bytes = 0;   // of the host
  std::optional<MemoryLimit> limit{};  // of the cgroup
};
MemoryFacts read_memory();

// Of a run's clusters on one host.
struct MemoryNeeds {
  unsigned clusters = 0;         // 0: unknown
  std::uint64_t heap_bytes = 0;  // of each, at the most
};
Finding judge(const MemoryFacts& facts, const MemoryNeeds& needs);

// Of one host, as the system tells them.
struct HostFacts {
  unsigned processors = 1;  // that this process may use
  std::uint64_t open_files = 0;
  std::uint64_t locked_bytes = 0;
  MemoryFacts memory{};
  std::uint64_t mappings = 0;    // that a process may have
  bool has_userfaultfd = false;  // in the form that the shared heap needs
  std::uint64_t receive_buffer_bytes = 0;
  bool is_root = false;
  bool has_aes = false;        // instructions for AES-256-GCM
  std::string missing_daemon;  // why there is no braidd; empty: there is
};
HostFacts read_facts();

struct HostNeeds {
  unsigned threads = 0;    // compute nodes and proxies on this host; 0: unknown
  bool is_sealed = false;  // packets, on some wire of the run
  MemoryNeeds memory{};
};
std::vector<Finding> judge(const HostFacts& facts, const HostNeeds& needs);

// The lengths of IP packets that are tried between hosts, ascending.
inline constexpr std::uint32_t kTriedBytes[] = {576, 1280, 1400, 1500, 4000, 9000};

// What of these was sent from one address to another, and what has arrived; `refusal`: why the sender's kernel did not send any,
// if it did not. `mtu_bytes`: of a run.
struct PathFacts {
  std::string from, to;  // names of hosts, with the address where they have several
  std::vector<std::uint32_t> sent, heard;
  std::string refusal;
};
Finding judge(const PathFacts& path, std::uint32_t mtu_bytes);

// The host's clock is ahead of ours by this many seconds, give or take `uncertainty`.
Finding judge_clock(double ahead_s, double uncertainty_s);
Finding judge_version(const std::string& there, const std::string& here);

// "  warning  processors: 2, for 6 threads\n           fewer of …".
std::string text_of(const Finding& finding);

void to_json(nlohmann::json& json, const Finding& finding);
// Throws nlohmann::json::exception for what is none.
void from_json(const nlohmann::json& json, Finding& finding);

}  // namespace braid::cli
