#include "tools/braid/run/ranks/rank_card.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/hex.h"
#include "base/json.h"
#include "stack/wire/addresses.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

std::string hexadecimal(const std::string& bytes) {
  std::string text(2 * bytes.size(), '\0');
  write_hex(std::as_bytes(std::span(bytes)), text.data());
  return text;
}

// Throws Json::exception for what is none.
std::string from_hexadecimal(const std::string& text) {
  std::string bytes(text.size() / 2, '\0');
  if (!read_hex(text, std::as_writable_bytes(std::span(bytes))))
    throw Json::other_error::create(500, "a digit is none", nullptr);
  return bytes;
}

// Of an address that read_card() has checked.
std::uint32_t network_of(const OwnAddress& own, unsigned prefix) {
  return prefix == 0 ? 0 : stack::Ipv4Address::parse(own.address)->value() >> (32 - prefix);
}

// An address of each card, none twice; `choose` gives null where a card has none.
template <class Choose>
std::optional<std::vector<std::string>> one_of_each(std::span<const RankCard* const> cards, Choose choose) {
  std::set<std::string> taken;
  std::vector<std::string> all;
  for (const RankCard* const card : cards) {
    const OwnAddress* const own = choose(*card);
    if (own == nullptr || !taken.insert(own->address).second) return {};
    all.push_back(own->address);
  }
  return all;
}

// Addresses of one network, or else the first one of each. Networks inside hosts (of containers) have the same address in each.
std::optional<std::vector<std::string>> addresses_of(std::span<const RankCard* const> cards) {
  for (const OwnAddress& first : cards.front()->addresses) {
    const auto in_the_same_network = [&](const RankCard& card) -> const OwnAddress* {
      const auto found = std::find_if(card.addresses.begin(), card.addresses.end(), [&](const OwnAddress& a) {
        return a.prefix == first.prefix && network_of(a, a.prefix) == network_of(first, first.prefix);
      });
      return found == card.addresses.end() ? nullptr : &*found;
    };
    if (auto all = one_of_each(cards, in_the_same_network)) return all;
  }
  return one_of_each(
      cards, [](const RankCard& card) { return card.addresses.empty() ? nullptr : &card.addresses.front(); });
}

}  // namespace

std::string text_of(const RankCard& card) {
  Json addresses = Json::array();
  for (const OwnAddress& own : card.addresses) addresses.push_back({own.address, own.prefix});
  return Json({{"version", card.version},
               {"host", card.host},
               {"machine", card.machine},
               {"addresses", addresses},
               {"port", card.port},
               {"certificate", hexadecimal(card.certificate)},
               {"pid", card.pid},
               {"processors", card.processors}})
      .dump();
}

Result<RankCard> read_card(unsigned rank, const std::string& text) {
  try {
    const Json card = Json::parse(text);
    RankCard read{.version = card.at("version").get<std::string>(), .host = "", .machine = ""};
    if (read.version != kVersion)
      return error(
          "rank {}: its braid has version {}, that of rank 0 {}: install the same version on every host",
          rank, read.version, kVersion);
    read.host = card.at("host").get<std::string>();
    read.machine = card.at("machine").get<std::string>();
    for (const Json& own : card.at("addresses")) {
      read.addresses.push_back({own.at(0).get<std::string>(), own.at(1).get<unsigned>()});
      if (!stack::Ipv4Address::parse(read.addresses.back().address) || read.addresses.back().prefix > 32)
        throw Json::other_error::create(500, "an address is none", nullptr);
    }
    read.port = card.at("port").get<std::uint16_t>();
    read.certificate = from_hexadecimal(card.at("certificate").get<std::string>());
    read.pid = card.at("pid").get<int>();
    read.processors = card.at("processors").get<std::vector<unsigned>>();
    return read;
  } catch (const Json::exception& problem) {
    return error(
        "rank {}: what it tells is not what a braid of this version tells ({}): install the same version on every host",
        rank, problem.what());
  }
}

Result<std::vector<RankHost>> hosts_of(std::span<const RankCard> cards) {
  std::vector<RankHost> hosts;
  std::vector<const RankCard*> first;
  std::map<std::string, std::size_t> places;  // by machine
  std::set<std::string> names;
  for (unsigned rank = 0; rank < cards.size(); ++rank) {
    const auto [place, is_new] = places.emplace(cards[rank].machine, hosts.size());
    if (is_new) {
      // Containers may be named alike.
      std::string name = cards[rank].host;
      if (!names.insert(name).second) name += "#" + std::to_string(rank);
      hosts.push_back({.host = {.name = std::move(name), .slots = 0}, .ranks = {}});
      first.push_back(&cards[rank]);
    }
    ++hosts[place->second].host.slots;
    hosts[place->second].ranks.push_back(rank);
  }
  if (hosts.size() <= 1) return hosts;
  const auto addresses = addresses_of(first);
  if (!addresses)
    return error(
        "{} and the {} other hosts of this job have no IPv4 addresses of which each has its own; start the run by 'braid run --hostfile', "
        "whose hosts have addresses: {{host: NAME, addresses: [IPV4]}}",
        hosts.front().host.name, hosts.size() - 1);
  for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].host.addresses = {(*addresses)[i]};
  return hosts;
}

std::vector<unsigned> processors_of(const RankHost& host, std::span<const RankCard> cards) {
  std::set<unsigned> all;
  for (const unsigned rank : host.ranks)
    all.insert(cards[rank].processors.begin(), cards[rank].processors.end());
  return {all.begin(), all.end()};
}

}  // namespace braid::cli
