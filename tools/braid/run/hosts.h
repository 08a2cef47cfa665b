// The hosts of a run (`braid run --hosts`, `--hostfile`), and which clusters each of them has. Pure, but for the look-up of
// a name's address.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

struct Host {
  std::string name;                      // as its launcher takes it: a name, an address, user@name
  unsigned slots = 1;                    // the clusters that it can have
  std::vector<std::string> addresses{};  // IPv4, of its NIs; empty: that of its name
  unsigned proxies = 0;                  // of each of its clusters; 0: as many as the run's others have
  // The only processors that its threads run on, as its kernel numbers them, ascending; empty: all that are allowed there.
  std::vector<unsigned> cores{};
  unsigned first_cluster = 0;  // set by place_clusters()
  unsigned clusters = 0;
};

// "a,b:2,user@c": names, each with its slots.
Result<std::vector<Host>> parse_hosts(const std::string& list);
// The text of a host file: YAML, a list of maps with the keys host, slots, addresses, proxies and cores; or lines as mpirun takes
// them, "name", "name:2" or "name slots=2", which may have our other keys too ("cores=0-3,8"), with comments that begin with #.
// `name` names the file in messages.
Result<std::vector<Host>> parse_host_file(const std::string& text, const std::string& name);

// Gives each host the next of the clusters 0, 1, ..., as many as it has slots. `per_host`: slots of each host, whatever the
// list says. `clusters`: how many there are; nothing: one for each slot. Hosts that get none are left out. Returns how many
// clusters there are. The error names the option to change.
Result<unsigned> place_clusters(std::vector<Host>& hosts, std::optional<unsigned> per_host,
                                std::optional<unsigned> clusters);

// Fills in the address of each host that has none. Blocks while names are looked up. An error: a name has no IPv4 address,
// a host has too many addresses, two hosts have the same one, or some addresses are of the loopback network, which other
// hosts do not reach, and some are not.
Result<void> find_addresses(std::vector<Host>& hosts);

// It is named as this machine: localhost, or an address of the loopback network.
bool is_this_machine(const Host& host);
// Their addresses, which find_addresses() has filled in, are of the loopback network: all of them are this machine.
bool are_this_machine(const std::vector<Host>& hosts);

}  // namespace braid::cli
