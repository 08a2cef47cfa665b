#include "settings/simulation.h"

#include "settings/limits.h"

namespace braid::settings {

template <>
struct Words<Mode> {
  static constexpr Word<Mode> kAll[] = {
      {"real", Mode::kReal}, {"no-delay", Mode::kNoDelay}, {"no-contention", Mode::kNoContention}};
};
template <>
struct Words<ModelMutant> {
  using E = ModelMutant;
  static constexpr Word<E> kAll[] = {{"none", E::kNone},
                                     {"last-in-first-out", E::kLastInFirstOut},
                                     {"forgets-checksums", E::kForgetsChecksums}};
};

namespace {

using S = SimulationConfig;
constexpr Setting kSettings[] = {
    declare<&S::model>(
        {.name = "model",
         .option = "--model",
         .help = "what things cost in simulation: a model's name (alewife-1997, modern) or a file",
         .reason = "the paper's machine",
         .allowed = "a model",
         .scope = Scope::kSimulated}),
    declare<&S::mode>(
        {.name = "mode",
         .option = "--mode",
         .help =
             "real; no-delay: messages bypass the proxies; no-contention: each takes as long as one of the "
             "program's mean length on an idle system",
         .scope = Scope::kSimulated}),
    declare<&S::proxy_speed>({.name = "proxy_speed",
                              .option = "--proxy-speed",
                              .help = "how fast a proxy is, in compute nodes",
                              .reason = "the paper's proxies are processors like the others",
                              .least_number = 0.25,
                              .most_number = 4,
                              .scope = Scope::kSimulated}),
    declare<&S::message_bytes>(
        {.name = "message_bytes",
         .option = "--message-bytes",
         .unit = "bytes",
         .help =
             "no-contention: the length of the message whose latency all have; 0: the mean of a real run that "
             "is made before",
         .most = 4096,
         .scope = Scope::kSimulated}),
    declare<&S::jitter>(
        {.name = "jitter",
         .option = "--jitter",
         .unit = "cycles",
         .help =
             "what a compute node asks for comes up to so many cycles later; the seed draws how many, each time",
         .reason = "another seed is another run, and no figure depends on so little",
         .most = 1'000'000,
         .scope = Scope::kSimulated}),
    declare<&S::strict>(
        {.name = "strict",
         .option = "--strict",
         .help = "everything strictly one after the other: slow, and the same result; to see that it is",
         .scope = Scope::kSimulated}),
    declare<&S::watchdog_s>(
        {.name = "watchdog_s",
         .option = "--watchdog",
         .unit = "s",
         .help = "end the run when a compute node has waited for a lock of the program's own, or spun in a "
                 "library's code, for so long, s; 0: never",
         .reason = "a turn of a program takes milliseconds",
         .most = kDayMs / 1000,
         .scope = Scope::kSimulated}),
    declare<&S::mutant>({.name = "mutant",
                         .option = "--mutant",
                         .help = "a mutant of the model, to see that its figures tell",
                         .scope = Scope::kSimulated})};

}  // namespace

constinit const Schema kSimulationSchema = {.settings = kSettings};

}  // namespace braid::settings
