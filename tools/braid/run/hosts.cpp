#include "tools/braid/run/hosts.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <sstream>

#include "base/limits.h"
#include "base/processors.h"
#include "settings/document.h"
#include "settings/views/yaml.h"
#include "stack/wire/addresses.h"
#include "tools/braid/number_in.h"

namespace braid::cli {
namespace {

constexpr const char* kBlanks = " \t\r";

Result<unsigned> parse_slots(const std::string& text, const std::string& place) {
  const std::optional<unsigned> slots = number_in<unsigned>(text);
  if (!slots || *slots == 0 || *slots > kMaxClusters)
    return error("{}: '{}' slots; allowed: 1 to {}", place, text, kMaxClusters);
  return *slots;
}

Result<unsigned> parse_proxies(const std::string& text, const std::string& place) {
  const std::optional<unsigned> proxies = number_in<unsigned>(text);
  if (!proxies || *proxies == 0 || *proxies > kMaxProxies)
    return error("{}: '{}' proxies; allowed: 1 to {}", place, text, kMaxProxies);
  return *proxies;
}

Result<void> add_cores(const std::string& text, const std::string& place, std::vector<unsigned>& cores) {
  const std::optional<std::vector<unsigned>> set = parse_processor_set(text);
  if (!set)
    return error("{}: '{}' cores; a list of processors from 0 to {} is wanted, as 0-3,8", place, text,
                 kMaxProcessors - 1);
  cores.insert(cores.end(), set->begin(), set->end());
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return {};
}

Result<void> add_address(const std::string& text, const std::string& place, std::vector<std::string>& all) {
  if (!stack::Ipv4Address::parse(text))
    return error("{}: addresses: '{}'; an IPv4 address is wanted, as 10.0.0.1", place, text);
  all.push_back(text);
  return {};
}

// A name becomes a word of ssh's or srun's command line: one that begins with a dash would be an option there.
Result<void> check_name(const std::string& name, const std::string& place) {
  if (name.empty()) return error("{}: the name of a host is missing", place);
  const bool is_printed =
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; });
  if (!is_printed)
    return error("{}: the name of a host has a control character, which is not shown; remove it", place);
  if (name.front() == '-' || name.find_first_of(" \t'\"\\$`;&|<>*?(){}") != std::string::npos)
    return error("{}: '{}' is no name of a host", place, name);
  return {};
}

// "name" or "name:slots".
Result<Host> parse_host(const std::string& text, const std::string& place) {
  Host host;
  const std::size_t colon = text.find(':');
  host.name = text.substr(0, colon);
  if (text.starts_with('[') ||
      text.find(':', colon == std::string::npos ? colon : colon + 1) != std::string::npos)
    return error("{}: '{}': an IPv6 address; only IPv4 is carried: give a name or an IPv4 address", place,
                 text);
  if (const Result<void> valid = check_name(host.name, place); !valid) return valid.error();
  if (colon == std::string::npos) return host;
  if (colon + 1 == text.size())
    return error(
        "{}: '{}': slots are missing; a line is NAME, NAME:SLOTS or NAME slots=SLOTS, and a file in YAML is "
        "a list: - {{host: NAME}}",
        place, text);
  const Result<unsigned> slots = parse_slots(text.substr(colon + 1), place);
  if (!slots) return slots.error();
  host.slots = *slots;
  return host;
}

// "slots=2", and our other keys in the same form.
Result<void> read_word(const std::string& word, const std::string& place, Host& host) {
  const std::size_t sign = std::min(word.find('='), word.size());
  const std::string key = word.substr(0, sign);
  const std::string value = sign < word.size() ? word.substr(sign + 1) : "";
  if (key == "max_slots" || key == "max-slots") return {};  // for more than slots: we never do that
  if (key == "slots" || key == "proxies") {
    const Result<unsigned> number = key == "slots" ? parse_slots(value, place) : parse_proxies(value, place);
    if (!number) return number.error();
    (key == "slots" ? host.slots : host.proxies) = *number;
    return {};
  }
  if (key == "cores") return add_cores(value, place, host.cores);
  if (key == "addresses") {
    std::istringstream all(value);
    for (std::string address; std::getline(all, address, ',');) {
      if (Result<void> done = add_address(address, place, host.addresses); !done) return done;
    }
    return host.addresses.empty() ? add_address("", place, host.addresses) : Result<void>();
  }
  return error(
      "{}: '{}' is not known; a line is NAME, NAME:SLOTS or NAME slots=SLOTS, and may have addresses=IPV4,..., "
      "proxies=NUMBER and cores=0-3,8",
      place, word);
}

// The words of a line, with "slots = 2" as the one word "slots=2": mpirun takes both.
std::vector<std::string> words_of_line(const std::string& line) {
  std::istringstream stream(line);
  const std::vector<std::string> parts{std::istream_iterator<std::string>(stream), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const bool is_followed_by_sign = at + 1 < parts.size() && parts[at + 1].front() == '=';
    const bool is_value = words.size() > 1 && words.back().back() == '=' &&
                          parts[at].find('=') == std::string::npos && !is_followed_by_sign;
    if (words.size() > 1 && (parts[at].front() == '=' || is_value))
      words.back() += parts[at];
    else
      words.push_back(parts[at]);
  }
  return words;
}

// A line of mpirun's host file, without its comment: "name slots=2 max-slots=4".
Result<Host> parse_line(const std::string& line, const std::string& place) {
  const std::vector<std::string> words = words_of_line(line);
  Result<Host> host = parse_host(words.front(), place);
  if (!host) return host;
  std::set<std::string> keys;
  for (const std::string& word : std::span(words).subspan(1)) {
    if (const std::string key = word.substr(0, word.find('=')); !keys.insert(key).second)
      return error("{}: '{}' is given twice; remove one of them", place, key);
    if (const Result<void> done = read_word(word, place, *host); !done) return done.error();
  }
  return host;
}

Result<std::vector<Host>> parse_lines(const std::string& text, const std::string& name) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(kBlanks) == std::string::npos) continue;
    Result<Host> host = parse_line(line, fmt::format("{}:{}", name, number));
    if (!host) return host.error();
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

Result<void> read_key(const settings::Document& file, const std::string& key, const settings::Node& value,
                      Host& host) {
  if (key == "host" && value.is_scalar()) {
    if (value.text.find(':') != std::string::npos)
      return file.wrong(value, key,
                        "only a name or an IPv4 address is allowed; the number of clusters is at 'slots'");
    host.name = value.text;
    return check_name(host.name, file.place(value));
  }
  if (key == "slots" && value.is_scalar()) {
    const Result<unsigned> slots = parse_slots(value.text, file.place(value));
    if (!slots) return slots.error();
    host.slots = *slots;
    return {};
  }
  if (key == "proxies" && value.is_scalar()) {
    const Result<unsigned> proxies = parse_proxies(value.text, file.place(value));
    if (!proxies) return proxies.error();
    host.proxies = *proxies;
    return {};
  }
  if (key == "cores" && value.is_scalar()) return add_cores(value.text, file.place(value), host.cores);
  // In a map of one line a comma ends the value, so sets with commas are lists there.
  if (key == "cores" && value.is_list() && !value.items.empty()) {
    for (const settings::Node* item : value.items) {
      if (!item->is_scalar()) return file.wrong(*item, key, "a list of processors is wanted, as [0-3, 8]");
      if (Result<void> done = add_cores(item->text, file.place(*item), host.cores); !done) return done;
    }
    return {};
  }
  if (key == "addresses" && value.is_list()) {
    for (const settings::Node* item : value.items) {
      if (!item->is_scalar()) return file.wrong(*item, key, "an IPv4 address is wanted, as 10.0.0.1");
      if (Result<void> done = add_address(item->text, file.place(*item), host.addresses); !done) return done;
    }
    return {};
  }
  return file.wrong(
      value, key,
      "allowed: host: NAME, slots: NUMBER, addresses: [IPV4, ...], proxies: NUMBER, cores: [0-3, 8]");
}

Result<std::vector<Host>> parse_yaml_hosts(const std::string& text, const std::string& name) {
  const Result<settings::Document> file = settings::parse_yaml(text, name);
  if (!file) return file.error();
  if (!file->root().is_list() || file->root().items.empty())
    return error("{}: a list of hosts is wanted: - {{host: NAME, slots: 2}}", name);
  std::vector<Host> hosts;
  for (const settings::Node* item : file->root().items) {
    if (!item->is_map()) return error("{}: a map is wanted: {{host: NAME, slots: 2}}", file->place(*item));
    Host host;
    for (const settings::Node::Entry& entry : item->entries) {
      if (const Result<void> done = read_key(*file, entry.key->text, *entry.value, host); !done)
        return done.error();
    }
    if (host.name.empty()) return error("{}: key 'host' is missing", file->place(*item));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

// The first character that is neither blank nor in a comment.
char first_character(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find_first_not_of(kBlanks);
    if (at != std::string::npos && line[at] != '#') return line[at];
  }
  return 0;
}

// "[::1]:2" and not a list of YAML, whose items have other characters.
bool begins_with_ipv6(const std::string& text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find_first_not_of("0123456789abcdefABCDEF:.", begin + 1);
  return end != std::string::npos && (text[end] == ']' || text[end] == '%') &&
         text.substr(begin, end - begin).find(':') != std::string::npos;
}

Result<std::string> address_of_name(const std::string& host) {
  const std::string name = host.substr(host.find('@') == std::string::npos ? 0 : host.find('@') + 1);
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int problem = ::getaddrinfo(name.c_str(), nullptr, &wanted, &found); problem != 0)
    return error(
        "host {}: it has no IPv4 address: {}; give it in a host file: {{host: {}, addresses: [IPV4]}}", host,
        ::gai_strerror(problem), host);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  char text[INET_ADDRSTRLEN];
  const in_addr address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  return std::string(::inet_ntop(AF_INET, &address, text, sizeof text));
}

bool is_loopback(const std::string& address) {
  return stack::Ipv4Address::parse(address)->value() >> 24 == 127;
}

}  // namespace

Result<std::vector<Host>> parse_hosts(const std::string& list) {
  std::vector<Host> hosts;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    Result<Host> host = parse_host(name, "--hosts");
    if (!host) return host.error();
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) return error("--hosts: no host is named");
  return hosts;
}

Result<std::vector<Host>> parse_host_file(const std::string& text, const std::string& name) {
  // Some editors begin a file of UTF-8 so.
  if (constexpr std::string_view kMark = "\xef\xbb\xbf"; text.starts_with(kMark))
    return parse_host_file(text.substr(kMark.size()), name);
  const char first = first_character(text);
  if (first == 0) return error("{}: no host is named", name);
  const bool is_list = first == '-' || (first == '[' && !begins_with_ipv6(text));
  return is_list ? parse_yaml_hosts(text, name) : parse_lines(text, name);
}

Result<unsigned> place_clusters(std::vector<Host>& hosts, std::optional<unsigned> per_host,
                                std::optional<unsigned> clusters) {
  std::set<std::string> names;
  unsigned slots = 0;
  for (Host& host : hosts) {
    if (!names.insert(host.name).second)
      return error("host {}: it is named twice; give it slots instead: {}:2", host.name, host.name);
    if (per_host) host.slots = *per_host;
    slots += host.slots;
  }
  const unsigned wanted = clusters.value_or(slots);
  if (wanted > slots)
    return error("--clusters {}: the {} hosts have {} slots; name more hosts, or raise --per-host", wanted,
                 hosts.size(), slots);
  if (wanted > kMaxClusters)
    return error("the hosts have {} slots; at most {} clusters are possible: set --clusters", slots,
                 kMaxClusters);
  unsigned next = 0;
  for (Host& host : hosts) {
    host.first_cluster = next;
    host.clusters = std::min(host.slots, wanted - next);
    next += host.clusters;
  }
  std::erase_if(hosts, [](const Host& host) { return host.clusters == 0; });
  return wanted;
}

Result<void> find_addresses(std::vector<Host>& hosts) {
  std::set<std::string> addresses;
  for (Host& host : hosts) {
    if (host.addresses.empty()) {
      Result<std::string> address = address_of_name(host.name);
      if (!address) return address.error();
      host.addresses.push_back(std::move(*address));
    }
    if (host.addresses.size() > kMaxNis)
      return error("host {}: it has {} addresses; give it {} at most", host.name, host.addresses.size(),
                   kMaxNis);
    for (const std::string& address : host.addresses) {
      if (!addresses.insert(address).second)
        return error("host {}: another NI has the same address {}; give each host its own, in a host file",
                     host.name, address);
      if (is_loopback(address) != is_loopback(hosts.front().addresses.front()))
        return error(
            "hosts {} ({}) and {} ({}): a loopback address is not reached from other hosts; name the address of the "
            "network in a host file: {{host: NAME, addresses: [IPV4]}}",
            hosts.front().name, hosts.front().addresses.front(), host.name, address);
    }
  }
  return {};
}

bool is_this_machine(const Host& host) {
  return host.name == "localhost" || host.name.starts_with("127.");
}

bool are_this_machine(const std::vector<Host>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(),
                     [](const Host& h) { return is_loopback(h.addresses.front()); });
}

}  // namespace braid::cli
