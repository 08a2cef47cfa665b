#include "tools/braid/run/written_globals.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/json.h"
#include "tools/braid/run/costs.h"

namespace braid::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNamed = 8;

// "0, 1, 2 and 7"
std::string list_of(const std::vector<std::uint32_t>& clusters) {
  std::string text;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    const char* const before = i == 0 ? "" : i + 1 == clusters.size() ? " and " : ", ";
    text += fmt::format("{}{}", before, clusters[i]);
  }
  return text;
}

// "total (clusters 0 and 1), text (clusters 1 and 2) and 5 more"
std::string names_of(const std::vector<WrittenGlobal>& written) {
  std::string names;
  for (std::size_t i = 0; i < std::min(kNamed, written.size()); ++i) {
    const WrittenGlobal& global = written[i];
    names += fmt::format("{}{} (cluster{} {})", i == 0 ? "" : ", ", global.name,
                         global.clusters.size() == 1 ? "" : "s", list_of(global.clusters));
  }
  if (written.size() > kNamed) names += fmt::format(" and {} more", written.size() - kNamed);
  return names;
}

Json json_of(const std::vector<WrittenGlobal>& written) {
  Json list = Json::array();
  for (const WrittenGlobal& global : written)
    list.push_back({{"name", global.name}, {"clusters", global.clusters}});
  return list;
}

}  // namespace

GlobalsOfClusters globals_of(std::span<const Json> clusters) {
  GlobalsOfClusters all;
  std::map<std::string, std::size_t> places;
  std::vector<WrittenGlobal> written;
  bool main_is_known = false;
  for (std::uint32_t k = 0; k < clusters.size(); ++k) {
    if (!clusters[k].is_object()) continue;
    const auto given = clusters[k].find("globals");
    if (given == clusters[k].end() || !given->is_object()) continue;
    if (const auto names = given->find("have_names"); names != given->end() && *names == false)
      all.have_names = false;
    const std::uint64_t more = count_in(*given, "more");
    all.not_told += more;
    if (k == 0) main_is_known = more == 0;
    all.unwatched_bytes = std::max(all.unwatched_bytes, count_in(*given, "unwatched_bytes"));
    const auto list = given->find("written");
    if (list == given->end() || !list->is_array()) continue;
    for (const Json& name : *list) {
      if (!name.is_string()) continue;
      const auto [place, is_new] = places.try_emplace(name.get<std::string>(), written.size());
      if (is_new) written.push_back({.name = place->first, .clusters = {}});
      // Static variables of several files may have one name.
      std::vector<std::uint32_t>& writers = written[place->second].clusters;
      if (writers.empty() || writers.back() != k) writers.push_back(k);
    }
  }
  for (WrittenGlobal& global : written) {
    if (global.clusters.size() > 1) {
      all.by_several.push_back(std::move(global));
    } else if (main_is_known && global.clusters.front() != 0) {
      all.by_one.push_back(std::move(global));
    }
  }
  return all;
}

std::vector<std::string> warnings(const GlobalsOfClusters& globals) {
  if (!globals.have_names)
    return {"which globals several clusters have written is not known, for the program is stripped"};
  std::vector<std::string> sentences;
  if (!globals.by_several.empty())
    sentences.push_back(fmt::format(
        "several clusters have written a global since the start, each its own copy: {}; if they mean one, link "
        "with --shared-globals",
        names_of(globals.by_several)));
  if (!globals.by_one.empty())
    sentences.push_back(fmt::format(
        "one cluster alone has written a global since the start, its own copy, which main() does not see: {}; if "
        "it should, link with --shared-globals",
        names_of(globals.by_one)));
  return sentences;
}

Json json_of(const GlobalsOfClusters& globals) {
  return {{"written_by_several", json_of(globals.by_several)},
          {"written_by_one", json_of(globals.by_one)},
          {"have_names", globals.have_names},
          {"not_told", globals.not_told},
          {"unwatched_bytes", globals.unwatched_bytes}};
}

}  // namespace braid::cli
