// What each rank of a job tells the others, and the hosts of a run that follow from it. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/run/hosts.h"

namespace braid::cli {

struct OwnAddress {
  std::string address;  // IPv4
  unsigned prefix;      // bits of its network
};

struct RankCard {
  std::string version;                  // of its braid
  std::string host;                     // its name
  std::string machine;                  // the same for ranks that are in one network namespace of one host
  std::vector<OwnAddress> addresses{};  // without those of the loopback network
  std::uint16_t port = 0;               // TCP: where it listens
  std::string certificate{};            // its own, DER: tls_connection.h
  int pid = 0;
  std::vector<unsigned> processors{};  // that it may run on
};

// Text for PMIx's store, which is not secret.
std::string text_of(const RankCard& card);
// The error names the rank, and the cure.
Result<RankCard> read_card(unsigned rank, const std::string& text);

// A host with its ranks, of which the first serves it.
struct RankHost {
  Host host;  // a slot for each rank, and the one address at which the others reach it
  std::vector<unsigned> ranks;
};
// In the order of their first ranks. One host: it has no address. The error: hosts have no addresses that all others reach.
Result<std::vector<RankHost>> hosts_of(std::span<const RankCard> cards);

// All processors that one of the host's ranks may run on, ascending. mpirun and srun divide a host among its ranks; all of them are one run.
std::vector<unsigned> processors_of(const RankHost& host, std::span<const RankCard> cards);

}  // namespace braid::cli
