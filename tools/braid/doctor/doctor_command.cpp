#include "tools/braid/doctor/doctor_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/clock.h"
#include "settings/reader.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/command_line/settings_options.h"
#include "tools/braid/doctor/consulted_host.h"
#include "tools/braid/doctor/findings.h"
#include "tools/braid/run/host_options.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/shell_word.h"
#include "tools/braid/version.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kFooter =
    "Without hosts this one is examined: processors, memory, limits, how accesses to shared memory are detected. With hosts each of\n"
    "them is, its version and clock are compared with these here, and between every two hosts packets of several lengths are\n"
    "sent in both directions through UDP ports that runs use too. Options of 'braid run' tell what run is meant.\n"
    "\n"
    "Status: 0: a run can begin (warnings name what would make it slow); 1: it cannot; 64: wrong usage; 78: wrong configuration.\n"
    "\n"
    "Examples:\n"
    "  braid doctor\n"
    "  braid doctor node1:2 node2:2 --compute 4\n"
    "  braid doctor --hostfile hosts --mtu 9000\n";

// A connection by ssh may take long; what is said then does not.
constexpr Duration kConnect = 60_s, kAnswer = 10_s;
// For packets that are on their way.
constexpr unsigned kFlightUs = 400'000;

struct Arguments {
  SettingsOptions settings{false};
  HostOptions hosts;
  std::vector<std::string> names;
};

// Prints findings and remembers whether one is bad.
class Chart {
 public:
  void head(const std::string& text) { print(text + "\n"); }
  void add(const Finding& finding) {
    is_bad_ |= finding.verdict == Verdict::kBad;
    print(text_of(finding));
  }
  bool is_bad() const { return is_bad_; }

 private:
  bool is_bad_ = false;
};

struct Consulted {
  Host host;
  std::string command;                // that starts its braid-node, for a shell
  std::optional<ConsultedHost> talk;  // while it answers
  std::vector<Finding> findings;
  std::vector<std::optional<std::uint16_t>> ports;  // by address; nothing: the host does not have the address
  std::vector<Json> probes;
  Json sent, refused;
  std::set<std::tuple<std::string, std::string, std::uint32_t>> heard;  // to, from, bytes

  void lose(const std::string& why) {
    findings.push_back(
        {"connection", Verdict::kBad, why,
         fmt::format("make the command that starts braid-node work; try it by hand: {}", command)});
    talk.reset();
  }
};

class Doctor {
 public:
  Doctor(std::vector<Host> hosts, const settings::RunConfig& config, std::uint32_t mtu_bytes)
      : config_(config), mtu_bytes_(mtu_bytes) {
    for (Host& host : hosts) hosts_.emplace_back().host = std::move(host);
  }

  void consult(const HostLauncher& launcher, const std::string& agent) {
    for (Consulted& h : hosts_) {
      const std::vector<std::string> words = launcher.command(h.host, {agent, "--doctor"});
      for (const std::string& word : words) h.command += (h.command.empty() ? "" : " ") + for_shell(word);
      Result<ConsultedHost> talk = ConsultedHost::start(words);
      if (!talk) {
        h.lose(talk.error().text);
        continue;
      }
      h.talk.emplace(std::move(talk).value());
      h.talk->say({{"threads", h.host.clusters * (config_.compute +
                                                  (h.host.proxies == 0 ? config_.proxies : h.host.proxies))},
                   {"clusters", h.host.clusters},
                   {"heap_bytes", std::uint64_t{config_.heap_mib} << 20},
                   {"cores", h.host.cores},
                   {"is_sealed", settings::is_sealed(config_.security.mode, false)},
                   {"addresses", h.host.addresses}});
    }
    const Instant connected = monotonic_now() + kConnect;
    for (Consulted& h : hosts_) hear(h, connected, [&](const Json& answer) { take_examination(h, answer); });
    for (Consulted& h : hosts_) ask_for_probes(h);
    (void)::usleep(kFlightUs);
    for (Consulted& h : hosts_) {
      if (h.talk) h.talk->close();
    }
    for (Consulted& h : hosts_)
      hear(h, monotonic_now() + kAnswer, [&](const Json& answer) { take_heard(h, answer); });
  }

  void tell(Chart& chart) const {
    for (const Consulted& h : hosts_) {
      chart.head(h.host.name);
      for (const Finding& finding : h.findings) chart.add(finding);
    }
    if (hosts_.size() < 2) return;
    chart.head("between hosts");
    tell_paths(chart);
  }

 private:
  template <class Take>
  static void hear(Consulted& h, Instant deadline, Take&& take) {
    if (!h.talk) return;
    const Result<Json> answer = h.talk->next(deadline);
    if (!answer) return h.lose(answer.error().text);
    try {
      take(*answer);
    } catch (const Json::exception& problem) {
      h.lose(fmt::format("what its braid-node says is no answer: {}", problem.what()));
    }
  }

  static void take_examination(Consulted& h, const Json& answer) {
    h.findings.push_back(judge_version(answer.at("version").get<std::string>(), kVersion));
    for (const Json& finding : answer.at("findings")) h.findings.push_back(finding.get<Finding>());
    for (const std::string& address : h.host.addresses) {
      const Json& ports = answer.at("ports");
      if (ports.contains(address)) {
        h.ports.emplace_back(ports[address].get<std::uint16_t>());
        continue;
      }
      h.ports.emplace_back();
      h.findings.push_back({"address " + address, Verdict::kBad,
                            answer.at("refused").at(address).get<std::string>(),
                            "name an address that the host has in the host file ('addresses')"});
    }
  }

  void ask_for_probes(Consulted& from) {
    if (!from.talk) return;
    for (const Consulted& to : hosts_) {
      if (&to == &from) continue;
      for (std::size_t n = 0; n < from.ports.size() && n < to.ports.size(); ++n) {
        if (from.ports[n] && to.ports[n])
          from.probes.push_back({{"from", from.host.addresses[n]},
                                 {"to", to.host.addresses[n]},
                                 {"port", *to.ports[n]},
                                 {"bytes", kTriedBytes}});
      }
    }
    const Instant asked = monotonic_now();
    from.talk->say({{"probes", from.probes}});
    hear(from, asked + kAnswer, [&](const Json& answer) {
      from.sent = answer.at("sent");
      from.refused = answer.at("refused");
      const Duration half = (monotonic_now() - asked) / 2;
      const double here = (unix_time_of_monotonic_zero() + (asked - Instant::from_ns(0)) + half).s();
      from.findings.push_back(judge_clock(answer.at("clock").get<double>() - here, half.s()));
    });
  }

  static void take_heard(Consulted& h, const Json& answer) {
    for (const Json& one : answer.at("heard"))
      h.heard.emplace(one.at("to").get<std::string>(), one.at("from").get<std::string>(),
                      one.at("bytes").get<std::uint32_t>());
  }

  const Consulted* host_of(const std::string& address) const {
    for (const Consulted& h : hosts_)
      if (std::count(h.host.addresses.begin(), h.host.addresses.end(), address) > 0) return &h;
    return nullptr;
  }

  static std::string end_of_path(const Host& host, const std::string& address) {
    return host.addresses.size() == 1 ? host.name : fmt::format("{} ({})", host.name, address);
  }

  void tell_paths(Chart& chart) const {
    std::size_t good = 0;
    std::uint32_t least = kTriedBytes[std::size(kTriedBytes) - 1];
    for (const Consulted& from : hosts_) {
      for (std::size_t i = 0; i < from.probes.size() && i < from.sent.size(); ++i) {
        const auto source = from.probes[i]["from"].get<std::string>(),
                   target = from.probes[i]["to"].get<std::string>();
        const Consulted* const to = host_of(target);
        if (to == nullptr || !to->talk) continue;  // what it heard is not known
        PathFacts path;
        path.from = end_of_path(from.host, source);
        path.to = end_of_path(to->host, target);
        path.sent = from.sent[i].get<std::vector<std::uint32_t>>();
        path.refusal = from.refused[i].get<std::string>();
        for (const std::uint32_t bytes : kTriedBytes)
          if (to->heard.contains({target, source, bytes})) path.heard.push_back(bytes);
        const Finding finding = judge(path, mtu_bytes_);
        if (finding.verdict != Verdict::kOk) {
          chart.add(finding);
          continue;
        }
        ++good;
        least = std::min(least, path.heard.back());
      }
    }
    if (good > 0)
      chart.add({fmt::format("UDP on {} {}", good, good == 1 ? "way" : "ways"), Verdict::kOk,
                 fmt::format("packets of up to {} bytes arrive", least), ""});
  }

  const settings::RunConfig& config_;
  const std::uint32_t mtu_bytes_;
  std::vector<Consulted> hosts_;
};

int run_doctor(const Arguments& arguments, const Given& given) {
  settings::Collector<settings::RunConfig> builder;
  const settings::RunConfig config = arguments.settings.configure(given, builder);
  std::string list;
  for (const std::string& name : arguments.names) list += (list.empty() ? "" : ",") + name;
  std::vector<Host> hosts = arguments.hosts.hosts(given, list);
  Chart chart;
  if (hosts.empty()) {
    chart.head("this host");
    for (const Finding& finding :
         judge(read_facts(),
               {.threads = config.threads(),
               .is_sealed = settings::is_sealed(config.security.mode, config.wire == settings::Wire::kShm),
               .memory = {config.clusters, std::uint64_t{config.heap_mib} << 20}}))
      chart.add(finding);
    return chart.is_bad() ? 1 : 0;
  }
  (void)arguments.hosts.place(given, hosts,
                              builder.is_given("clusters") ? std::optional(config.clusters) : std::nullopt);
  const std::uint32_t mtu = builder.is_given("transport.mtu_bytes") ? config.mtu_bytes() : kHostsMtuBytes;
  const std::unique_ptr<HostLauncher> launcher = arguments.hosts.launcher(hosts);
  Doctor doctor(std::move(hosts), config, mtu);
  doctor.consult(*launcher, arguments.hosts.agent(given));
  doctor.tell(chart);
  return chart.is_bad() ? 1 : 0;
}

}  // namespace

Subcommand doctor_command() {
  const auto arguments = std::make_shared<Arguments>();
  Subcommand command{.name = "doctor",
                     .about = "Try what runs need on this host, or on several and between them",
                     .usage = "braid doctor [HOST[:SLOTS] ...] [options]",
                     .footer = kFooter,
                     .options = {{.names = "hosts",
                                  .value_text = "HOST[:SLOTS]",
                                  .help = "the hosts, as in --hosts",
                                  .target = &arguments->names,
                                  .may_be_missing = true}},
                     .run = [arguments](const Given& given) { return run_doctor(*arguments, given); }};
  for (Option& option : arguments->hosts.options()) command.options.push_back(std::move(option));
  for (Option& option : arguments->settings.settings()) command.options.push_back(std::move(option));
  return command;
}

}  // namespace braid::cli
