#include "tools/braid/study/study.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/braid/number_in.h"
#include "tools/braid/study/condition.h"
#include "tools/braid/yaml_file.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

constexpr char kArguments[] = "arguments.";

bool is_argument(const std::string& key) {
  return key.starts_with(kArguments) && key.size() > sizeof kArguments - 1;
}

struct Assignment {
  YAML::Node key;
  YAML::Node value;
};
// What its places set.
using Axis = std::vector<std::vector<Assignment>>;

// What the whole study and each of its applications say.
struct Part {
  YAML::Node base;
  std::vector<Axis> axes;
  std::vector<YAML::Node> conditions;
};

struct Application {
  std::string name;
  std::vector<std::string> arguments;
  Part part;
};

class StudyLoader {
 public:
  explicit StudyLoader(const std::string& file) : file_(file) {}

  Result<Study> load(const YAML::Node& root) {
    if (!root.IsMap())
      return error("{}: a study is 'applications:' and what varies; see configs/study-small.yaml",
                   root.IsNull() ? file_ : place_in(file_, root));
    Part all;
    bool has_applications = false;
    const Result<void> read =
        each(root, "", {"applications", "base", "limit_s", "vary", "where"},
             [&](const std::string& name, const YAML::Node& key, const YAML::Node& value) -> Result<void> {
               if (name == "limit_s") return load_limit(key, value);
               if (name != "applications") return load_part(all, name, name, key, value);
               has_applications = true;
               return load_applications(key, value);
             });
    if (!read) return read.error();
    if (!has_applications) return error("{}: has no 'applications'; add e.g. 'applications: [water]'", file_);
    for (const Application& application : applications_) {
      if (const Result<void> done = expand(all, application); !done) return done.error();
    }
    if (study_.points.empty())
      return error("{}: no point is left; the conditions of 'where' exclude every combination", file_);
    return std::move(study_);
  }

 private:
  Error wrong(const YAML::Node& node, const std::string& key, const std::string& text) const {
    return wrong_key(file_, node, key, text);
  }

  // The entries of a map whose keys must be some of `known`, each once. `prefix` is what stands before them
  // in messages.
  template <class Take>
  Result<void> each(const YAML::Node& map, const std::string& prefix, const std::vector<std::string>& known,
                    Take take) const {
    std::set<std::string> seen;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar()) return error("{}: a key must be one word", place_in(file_, entry.first));
      const std::string name = entry.first.Scalar();
      if (!seen.insert(name).second)
        return wrong(entry.first, prefix + name, "is there twice; remove one of them");
      if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end())
        return wrong(entry.first, prefix + name,
                     find_setting(name) != nullptr ? "is a setting; put it below 'base' or 'vary'"
                                                   : not_known(name, known));
      if (const Result<void> done = take(name, entry.first, entry.second); !done) return done;
    }
    return {};
  }

  Result<void> load_limit(const YAML::Node& key, const YAML::Node& value) {
    const std::optional<double> seconds = number_in<double>(value.IsScalar() ? value.Scalar() : "");
    if (!seconds || !(*seconds >= 0 && *seconds <= kMaxLimitS))
      return wrong(value.IsNull() ? key : value, "limit_s",
                   fmt::format("must be the seconds that a point may take, up to {}; 0: as long as it takes",
                               kMaxLimitS));
    study_.limit_s = *seconds;
    return {};
  }

  Result<void> load_applications(const YAML::Node& key, const YAML::Node& list) {
    if (!list.IsSequence() || list.size() == 0)
      return wrong(list.IsNull() ? key : list, "applications",
                   "must be a list such as '- {application: water, arguments: [--molecules, 343]}'");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string entry = fmt::format("applications[{}]", i);
      Result<Application> application = load_application(list[i], entry);
      if (!application) return application.error();
      applications_.push_back(std::move(*application));
    }
    return {};
  }

  Result<Application> load_application(const YAML::Node& node, const std::string& entry) {
    Application application;
    if (node.IsScalar() && !node.Scalar().empty()) {
      application.name = node.Scalar();
      return application;
    }
    if (!node.IsMap())
      return wrong(node, entry, "must be a program's name, or '{application: water, arguments: […]}'");
    const Result<void> read =
        each(node, entry + ".", {"application", "arguments", "base", "vary", "where"},
             [&](const std::string& name, const YAML::Node& key, const YAML::Node& value) -> Result<void> {
               const std::string full = entry + "." + name;
               if (name == "application") {
                 if (!value.IsScalar() || value.Scalar().empty())
                   return wrong(key, full, "must be the name of a program, e.g. water, or its path");
                 application.name = value.Scalar();
                 return {};
               }
               if (name == "arguments") return load_arguments(application.arguments, full, key, value);
               return load_part(application.part, name, full, key, value);
             });
    if (!read) return read.error();
    if (application.name.empty()) return wrong(node, entry, "has no 'application'; add it");
    return application;
  }

  Result<void> load_arguments(std::vector<std::string>& arguments, const std::string& full,
                              const YAML::Node& key, const YAML::Node& list) const {
    if (!list.IsSequence())
      return wrong(list.IsNull() ? key : list, full, "must be a list of words: [--molecules, 343]");
    for (const YAML::Node& word : list) {
      if (!word.IsScalar()) return wrong(word, full, "must be a list of words: [--molecules, 343]");
      arguments.push_back(word.Scalar());
    }
    return {};
  }

  Result<void> load_part(Part& part, const std::string& name, const std::string& full, const YAML::Node& key,
                         const YAML::Node& value) {
    if (name == "base") {
      if (!value.IsMap() && !value.IsNull())
        return wrong(value, full, "must be settings, as in a configuration file");
      part.base = value;
      return {};
    }
    const bool is_vary = name == "vary";
    if (!value.IsSequence())
      return wrong(value.IsNull() ? key : value, full,
                   is_vary ? "must be a list of axes such as '- proxies: [1, 2, 4]'"
                           : "must be a list of conditions such as '- proxies <= compute'");
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string entry = fmt::format("{}[{}]", full, i);
      if (!is_vary) {
        if (!value[i].IsScalar())
          return wrong(value[i], entry, "must be a condition such as 'proxies <= compute'");
        part.conditions.push_back(value[i]);
        continue;
      }
      Result<Axis> axis = load_axis(value[i], entry);
      if (!axis) return axis.error();
      part.axes.push_back(std::move(*axis));
    }
    return {};
  }

  Result<Axis> load_axis(const YAML::Node& node, const std::string& entry) {
    if (!node.IsMap() || node.size() == 0)
      return wrong(node, entry, "must be one axis, such as 'proxies: [1, 2, 4]'");
    Axis axis;
    std::string first;
    const Result<void> read = each(
        node, "", {},
        [&](const std::string& name, const YAML::Node& key, const YAML::Node& values) -> Result<void> {
          if (!values.IsSequence() || values.size() == 0)
            return wrong(values.IsNull() ? key : values, name, "must have a list of values: [1, 2, 4]");
          if (first.empty()) {
            first = name;
            axis.resize(values.size());
          }
          if (values.size() != axis.size())
            return wrong(values, name,
                         fmt::format("has {} values and '{}', which goes with it, {}; let them have as many, "
                                     "or make it an axis of its own",
                                     values.size(), first, axis.size()));
          for (std::size_t i = 0; i < axis.size(); ++i) axis[i].push_back({key, values[i]});
          if (std::find(study_.varied.begin(), study_.varied.end(), name) == study_.varied.end())
            study_.varied.push_back(name);
          return {};
        });
    if (!read) return read.error();
    return axis;
  }

  // A key on two axes would take the second's value, and points would be there twice.
  Result<void> check_axes(const std::vector<Axis>& axes) const {
    std::set<std::string> seen;
    std::size_t points = 1;
    for (const Axis& axis : axes) {
      for (const Assignment& a : axis.front()) {
        if (!seen.insert(a.key.Scalar()).second)
          return wrong(a.key, a.key.Scalar(), "is on two axes; let one have it");
      }
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
      for (const YAML::Node& node : part->conditions) {
        Result<Condition> condition = Condition::parse(node.Scalar(), others);
        if (!condition) return wrong(node, "where", condition.error().text);
        conditions.push_back(std::move(*condition));
      }
    }
    return conditions;
  }

  Result<void> expand(const Part& all, const Application& application) {
    StudyPoint base;
    base.application = application.name;
    base.arguments = application.arguments;
    for (const Part* const part : {&all, &application.part}) {
      if (part->base.IsNull()) continue;
      if (const Result<void> done = base.settings.load_node(part->base, file_); !done) return done;
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
      const std::string name = a.key.Scalar();
      if (!is_argument(name)) {
        if (const Result<void> done = point.settings.load_entry(a.key, a.value, file_); !done) return done;
        continue;
      }
      if (!a.value.IsScalar()) return wrong(a.value, name, "must have a list of words or numbers");
      point.varied_arguments[name.substr(sizeof kArguments - 1)] = a.value.Scalar();
    }
    return {};
  }

  Result<void> add(StudyPoint point, const std::vector<Condition>& conditions) {
    for (const auto& [key, place] : point.settings.given()) {
      if (!is_of(key, true)) return error("{} has no effect in simulations; remove it", place);
    }
    const auto value_of = [&](const std::string& key) { return point.value_of(key); };
    for (const Condition& condition : conditions) {
      if (!condition.holds(value_of)) return {};
    }
    if (const Result<RunConfig> whole = point.settings.finish(); !whole)
      return error("{} (in the point {})", whole.error().text, describe(point, study_.varied));
    study_.points.push_back(std::move(point));
    return {};
  }

  const std::string& file_;
  std::vector<Application> applications_;
  Study study_;
};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

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
    // As conditions and charts compare it: a number where it is one.
    const Json number = Json::parse(found->second, nullptr, false);
    return number.is_number() ? number : Json(found->second);
  }
  const Setting* const setting = find_setting(key);
  return setting == nullptr ? Json() : setting->get(settings.unchecked());
}

Result<Study> load_study(const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  return text ? parse_study(*text, path) : text.error();
}

Result<Study> parse_study(const std::string& yaml, const std::string& name) {
  const Result<YAML::Node> document = read_yaml(yaml, name);
  if (!document) return document.error();
  return StudyLoader(name).load(*document);
}

std::string describe(const StudyPoint& point, const std::vector<std::string>& varied) {
  std::string text = point.application;
  for (const std::string& key : varied) {
    if (const Json value = point.value_of(key); !value.is_null())
      text += fmt::format(", {} {}", key, text_of(value));
  }
  return text;
}

}  // namespace braid::cli
