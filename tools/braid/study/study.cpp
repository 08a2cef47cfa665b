#include "tools/braid/study/study.h"

#include <fmt/core.h>
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/json.h"
#include "settings/text.h"
#include "settings/value.h"
#include "settings/views/json.h"
#include "settings/views/yaml.h"
#include "tools/braid/study/condition.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;
using settings::Document;
using settings::Node;

constexpr char kArguments[] = "arguments.";

bool is_argument(const std::string& key) {
  return key.starts_with(kArguments) && key.size() > sizeof kArguments - 1;
}

// An object with the number of seconds.
constexpr settings::Setting kLimit = {
    .name = "limit_s",
    .unit = "s",
    .help = "real time that a point may take",
    .max_number = kMaxLimitS,
    .allowed = "the longest time of a point in seconds, up to 100000000; 0: no limit",
    .kind = settings::Kind::kNumber,
    .get = [](const void* s) { return settings::text_of_number(*static_cast<const double*>(s)); },
    .set = [](void* s,
              const std::string& text) { *static_cast<double*>(s) = settings::number_of_text(text); }};

// An object with the number of repetitions.
constexpr settings::Setting kRepetitions = {
    .name = "repetitions",
    .help = "how often each point runs live",
    .least = 1,
    .most = kMaxRepetitions,
    .kind = settings::Kind::kWhole,
    .get = [](const void* s) { return std::to_string(*static_cast<const unsigned*>(s)); },
    .set =
        [](void* s, const std::string& text) {
          *static_cast<unsigned*>(s) = static_cast<unsigned>(std::stoul(text));
        }};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

struct Assignment {
  const Node* key;
  const Node* value;
};
// The keys that its axes set.
using Axis = std::vector<std::vector<Assignment>>;

// The keys that both the whole study and each of its applications can have.
struct Part {
  const Node* base = nullptr;  // null: absent
  std::vector<Axis> axes;
  std::vector<const Node*> conditions;

  bool is_empty() const { return base == nullptr && axes.empty() && conditions.empty(); }
};

struct Application {
  std::string name;
  std::string live;
  std::vector<std::string> arguments;
  Part part;
  const Node* node = nullptr;
  std::string entry;  // "applications[1]"
};

class StudyLoader {
 public:
  explicit StudyLoader(const Document& document) : document_(document), file_(document.file()) {}

  Result<Study> load() {
    const Node& root = document_.root();
    if (!root.is_map())
      return error("{}: a study is 'applications:' and what varies; see configs/study-small.yaml",
                   root.is_null() ? file_ : document_.place(root));
    Part all;
    bool has_applications = false;
    const Result<void> read =
        each(root, "", {"applications", "base", "engine", "limit_s", "repetitions", "vary", "where"},
             [&](const std::string& name, const Node& key, const Node& value) -> Result<void> {
               if (name == "limit_s") return load_limit(key, value);
               if (name == "engine") return load_engine(key, value);
               if (name == "repetitions") return load_repetitions(key, value);
               if (name != "applications") return load_part(all, name, name, key, value);
               has_applications = true;
               return load_applications(key, value);
             });
    if (!read) return read.error();
    if (live_only_ != nullptr && !has_engine_)
      return wrong(*live_only_, live_only_->text, "is for live runs; add 'engine: live', or leave it out");
    if (!has_applications) return error("{}: has no 'applications'; add e.g. 'applications: [water]'", file_);
    std::vector<const Application*> without;
    for (const Application& application : applications_) {
      const std::size_t before = study_.points.size();
      if (const Result<void> done = expand(all, application); !done) return done.error();
      if (study_.points.size() == before) without.push_back(&application);
    }
    if (study_.points.empty())
      return error("{}: no point is left; the conditions of 'where' exclude every combination", file_);
    if (!without.empty())
      return wrong(*without.front()->node, without.front()->entry,
                   fmt::format("{} is in no point; the conditions of 'where' exclude every combination; "
                               "change them, or remove it",
                               without.front()->name));
    if (const Result<void> good = check_modes(); !good) return good.error();
    return std::move(study_);
  }

 private:
  Error wrong(const Node& node, const std::string& key, const std::string& text) const {
    return document_.wrong(node, key, text);
  }

  // The entries of a map whose keys must be among `known`. `prefix` precedes them in messages.
  template <class Take>
  Result<void> each(const Node& map, const std::string& prefix, const std::vector<std::string>& known,
                    Take take) const {
    for (const Node::Entry& entry : map.entries) {
      const std::string& name = entry.key->text;
      if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end())
        return wrong(*entry.key, prefix + name,
                     settings::find_setting(settings::kRunSchema, name) != nullptr
                         ? "is a setting; put it below 'base' or 'vary'"
                         : settings::not_known(name, known));
      if (const Result<void> done = take(name, *entry.key, *entry.value); !done) return done;
    }
    return {};
  }

  Result<void> load_limit(const Node& key, const Node& value) {
    double seconds = 0;
    if (!value.is_scalar() || !settings::assign(kLimit, &seconds, value.text).empty())
      return wrong(value.is_null() ? key : value, "limit_s",
                   fmt::format("must be {}", settings::allowed(kLimit)));
    study_.limit_s = seconds;
    return {};
  }

  Result<void> load_engine(const Node& key, const Node& value) {
    if (!value.is_scalar() || (value.text != "sim" && value.text != "live"))
      return wrong(value.is_null() ? key : value, "engine",
                   value.is_map() ? "must be sim or live; constants of the page engine stand below 'base'"
                                  : "must be sim, or live: points are also run on this host");
    study_.live = value.text == "live";
    has_engine_ = true;
    return {};
  }

  Result<void> load_repetitions(const Node& key, const Node& value) {
    const std::string problem =
        value.is_scalar() ? settings::assign(kRepetitions, &study_.repetitions, value.text) : "empty";
    live_only_ = &key;
    if (problem.empty()) return {};
    return wrong(value.is_null() ? key : value, "repetitions",
                 fmt::format("must be how often each point runs live, {}", settings::allowed(kRepetitions)));
  }

  Result<void> load_applications(const Node& key, const Node& list) {
    if (!list.is_list() || list.items.empty())
      return wrong(list.is_null() ? key : list, "applications",
                   "must be a list such as '- {application: water, arguments: [--molecules, 343]}'");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const std::string entry = fmt::format("applications[{}]", i);
      Result<Application> application = load_application(*list.items[i], entry);
      if (!application) return application.error();
      application->node = list.items[i];
      application->entry = entry;
      const auto is_same = [&](const Application& other) {
        return other.name == application->name && other.live == application->live &&
               other.arguments == application->arguments && other.part.is_empty() &&
               application->part.is_empty();
      };
      if (std::any_of(applications_.begin(), applications_.end(), is_same))
        return wrong(*list.items[i], entry,
                     "stands twice in the list, which is one point; remove one of them");
      applications_.push_back(std::move(*application));
    }
    return {};
  }

  Result<Application> load_application(const Node& node, const std::string& entry) {
    Application application;
    if (node.is_scalar() && !node.text.empty()) {
      application.name = node.text;
      return application;
    }
    if (!node.is_map())
      return wrong(node, entry, "must be a program's name, or '{application: water, arguments: […]}'");
    const Result<void> read =
        each(node, entry + ".", {"application", "arguments", "base", "live", "vary", "where"},
             [&](const std::string& name, const Node& key, const Node& value) -> Result<void> {
               const std::string full = entry + "." + name;
               if (name == "application") {
                 if (!value.is_scalar() || value.text.empty())
                   return wrong(key, full, "must be the name of a program, e.g. water, or its path");
                 application.name = value.text;
                 return {};
               }
               if (name == "live") {
                 if (!value.is_scalar() || value.text.empty())
                   return wrong(value.is_null() ? key : value, full,
                                "must be the program that runs live, e.g. jacobi, or its path");
                 application.live = value.text;
                 live_only_ = &key;
                 return {};
               }
               if (name == "arguments") return load_arguments(application.arguments, full, key, value);
               return load_part(application.part, name, full, key, value);
             });
    if (!read) return read.error();
    if (application.name.empty()) return wrong(node, entry, "has no 'application'; add it");
    return application;
  }

  Result<void> load_arguments(std::vector<std::string>& arguments, const std::string& full, const Node& key,
                              const Node& list) const {
    if (!list.is_list())
      return wrong(list.is_null() ? key : list, full, "must be a list of words: [--molecules, 343]");
    for (const Node* const word : list.items) {
      if (!word->is_scalar()) return wrong(*word, full, "must be a list of words: [--molecules, 343]");
      arguments.push_back(word->text);
    }
    return {};
  }

  Result<void> load_part(Part& part, const std::string& name, const std::string& full, const Node& key,
                         const Node& value) {
    if (name == "base") {
      if (!value.is_map() && !value.is_null())
        return wrong(value, full, "must be settings, as in a configuration file");
      part.base = value.is_null() ? nullptr : &value;
      return {};
    }
    const bool is_vary = name == "vary";
    if (!value.is_list())
      return wrong(value.is_null() ? key : value, full,
                   is_vary ? "must be a list of axes such as '- proxies: [1, 2, 4]'"
                           : "must be a list of conditions such as '- proxies <= compute'");
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const std::string entry = fmt::format("{}[{}]", full, i);
      if (!is_vary) {
        if (!value.items[i]->is_scalar())
          return wrong(*value.items[i], entry, "must be a condition such as 'proxies <= compute'");
        part.conditions.push_back(value.items[i]);
        continue;
      }
      Result<Axis> axis = load_axis(*value.items[i], entry);
      if (!axis) return axis.error();
      part.axes.push_back(std::move(*axis));
    }
    return {};
  }

  Result<Axis> load_axis(const Node& node, const std::string& entry) {
    if (!node.is_map() || node.entries.empty())
      return wrong(node, entry, "must be one axis, such as 'proxies: [1, 2, 4]'");
    Axis axis;
    std::string first;
    const Result<void> read =
        each(node, "", {}, [&](const std::string& name, const Node& key, const Node& values) -> Result<void> {
          if (!values.is_list() || values.items.empty())
            return wrong(values.is_null() ? key : values, name, "must have a list of values: [1, 2, 4]");
          if (first.empty()) {
            first = name;
            axis.resize(values.items.size());
          }
          if (values.items.size() != axis.size())
            return wrong(values, name,
                         fmt::format("has {} values and '{}', which goes with it, {}; let them have as many, "
                                     "or make it an axis of its own",
                                     values.items.size(), first, axis.size()));
          for (std::size_t i = 0; i < axis.size(); ++i) axis[i].push_back({&key, values.items[i]});
          if (std::find(study_.varied.begin(), study_.varied.end(), name) == study_.varied.end())
            study_.varied.push_back(name);
          return {};
        });
    if (!read) return read.error();
    return axis;
  }

  // Points that are the same would count twice in medians.
  Result<void> check_repeated(const Axis& axis) const {
    std::set<std::string> seen;
    for (const std::vector<Assignment>& place : axis) {
      StudyPoint point;
      if (const Result<void> done = apply(place, point); !done) return done;
      std::string words;
      for (const Assignment& a : place)
        words += fmt::format("{}{} {}", words.empty() ? "" : ", ", a.key->text,
                             text_of(point.value_of(a.key->text)));
      if (!seen.insert(words).second)
        return wrong(*place.front().value, place.front().key->text,
                     fmt::format("has '{}' twice, which is one point; remove one of them", words));
    }
    return {};
  }

  // A key on two axes would take the second one's value, and points would be duplicated.
  Result<void> check_axes(const std::vector<Axis>& axes) const {
    std::set<std::string> seen;
    std::size_t points = 1;
    for (const Axis& axis : axes) {
      for (const Assignment& a : axis.front()) {
        if (!seen.insert(a.key->text).second)
          return wrong(*a.key, a.key->text, "is on two axes; let one have it");
      }
      if (const Result<void> good = check_repeated(axis); !good) return good;
      points *= axis.size();
      if (points > kMaxStudyPoints)
        return error("{}: key 'vary': more than {} combinations; take fewer values", file_, kMaxStudyPoints);
    }
    return {};
  }

  Result<std::vector<Condition>> conditions_of(const Part& all, const Application& application) const {
    std::vector<std::string> others = {"application"};
    for (const std::string& key : study_.varied) {
      if (is_argument(key)) others.push_back(key);
    }
    std::vector<Condition> conditions;
    for (const Part* const part : {&all, &application.part}) {
      for (const Node* const node : part->conditions) {
        Result<Condition> condition = Condition::parse(node->text, others);
        if (!condition) return wrong(*node, "where", condition.error().text);
        conditions.push_back(std::move(*condition));
      }
    }
    return conditions;
  }

  Result<void> expand(const Part& all, const Application& application) {
    StudyPoint base;
    base.application = application.name;
    base.live = application.live;
    base.arguments = application.arguments;
    for (const Part* const part : {&all, &application.part}) {
      if (part->base == nullptr) continue;
      if (const Result<void> done = base.settings.load(document_, *part->base); !done) return done;
    }
    std::vector<Axis> axes = all.axes;
    axes.insert(axes.end(), application.part.axes.begin(), application.part.axes.end());
    if (const Result<void> done = check_axes(axes); !done) return done;
    const Result<std::vector<Condition>> conditions = conditions_of(all, application);
    if (!conditions) return conditions.error();

    std::vector<std::size_t> at(axes.size(), 0);
    for (;;) {
      StudyPoint point = base;
      for (std::size_t a = 0; a < axes.size(); ++a) {
        if (const Result<void> done = apply(axes[a][at[a]], point); !done) return done;
      }
      if (const Result<void> done = add(std::move(point), *conditions); !done) return done;
      std::size_t a = axes.size();
      while (a > 0 && ++at[a - 1] == axes[a - 1].size()) at[--a] = 0;
      if (a == 0) return {};
    }
  }

  Result<void> apply(const std::vector<Assignment>& place, StudyPoint& point) const {
    for (const Assignment& a : place) {
      const std::string& name = a.key->text;
      if (!is_argument(name)) {
        if (const Result<void> done = point.settings.load_entry(document_, *a.key, *a.value); !done)
          return done;
        continue;
      }
      if (!a.value->is_scalar()) return wrong(*a.value, name, "must have a list of words or numbers");
      point.varied_arguments[name.substr(sizeof kArguments - 1)] = a.value->text;
    }
    return {};
  }

  Result<void> add(StudyPoint point, const std::vector<Condition>& conditions) {
    for (const auto& [key, place] : point.settings.given()) {
      if (!study_.live && !settings::shapes(key, true))
        return error("{} has no effect in simulations; remove it, or add 'engine: live'", place);
    }
    const auto value_of = [&](const std::string& key) { return point.value_of(key); };
    for (const Condition& condition : conditions) {
      if (!condition.holds(value_of)) return {};
    }
    study_.points.push_back(std::move(point));
    return {};
  }

  // Refuses a setting that has an effect in no point. One that has its default is no mistake.
  Result<void> check_modes() const {
    const settings::RunConfig defaults;
    std::map<std::string, std::string> idle;  // key -> place
    std::set<std::string> acting;
    for (const StudyPoint& point : study_.points) {
      const settings::RunConfig& c = point.settings.unchecked();
      for (const auto& [key, place] : point.settings.given()) {
        const bool is_live = study_.live && settings::shapes(key, false);
        if (is_live || settings::acts_in(key, c.simulation.mode))
          acting.insert(key);
        else if (settings::find_setting(settings::kRunSchema, key) != nullptr &&
                 settings::text_of(settings::kRunSchema, &c, key) !=
                     settings::text_of(settings::kRunSchema, &defaults, key))
          idle.emplace(key, place);
      }
    }
    for (const auto& [key, place] : idle) {
      if (acting.contains(key)) continue;
      return error("{} has no effect, for no point has simulation.mode {}; remove it, or add that mode",
                   place, settings::modes_of(key));
    }
    return {};
  }

  const Document& document_;
  const std::string& file_;
  std::vector<Application> applications_;
  bool has_engine_ = false;
  const Node* live_only_ =
      nullptr;  // a key that only live runs have, which is not ignored silently; null: there is none
  Study study_;
};

}  // namespace

std::vector<std::string> StudyPoint::command() const {
  std::vector<std::string> all = {application};
  all.insert(all.end(), arguments.begin(), arguments.end());
  for (const auto& [name, value] : varied_arguments) all.push_back(fmt::format("--{}={}", name, value));
  return all;
}

Json StudyPoint::value_of(const std::string& key) const {
  if (key == "application") return application;
  if (is_argument(key)) {
    const auto found = varied_arguments.find(key.substr(sizeof kArguments - 1));
    if (found == varied_arguments.end()) return nullptr;
    // In the form that conditions and charts compare: a number if it is one.
    const Json number = Json::parse(found->second, nullptr, false);
    return number.is_number() ? number : Json(found->second);
  }
  if (settings::find_setting(settings::kRunSchema, key) == nullptr &&
      settings::find_list(settings::kRunSchema, key) == nullptr)
    return Json();
  return settings::json_of(settings::kRunSchema, &settings.unchecked(), key);
}

Result<Study> load_study(const std::string& path) {
  const Result<std::string> text = settings::read_text_file(path);
  return text ? parse_study(*text, path) : text.error();
}

Result<Study> parse_study(const std::string& yaml, const std::string& name) {
  const Result<Document> document = settings::parse_yaml(yaml, name);
  if (!document) return document.error();
  Result<Study> study = StudyLoader(*document).load();
  if (!study) return study;
  study->file = name.substr(name.rfind('/') + 1);
  study->text = yaml;
  return study;
}

std::string describe(const StudyPoint& point, const std::vector<std::string>& varied) {
  std::string text = point.application;
  for (const std::string& key : varied) {
    if (const Json value = point.value_of(key); !value.is_null())
      text += fmt::format(", {} {}", key, text_of(value));
  }
  if (point.repetition > 0) text += fmt::format(", live, repetition {}", point.repetition);
  return text;
}

}  // namespace braid::cli
