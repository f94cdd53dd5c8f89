#include <fmt/format.h>

#include "train/task_families.h"

namespace lockstep::train::tasks {

using std::string_view;

Row look_up(TaskRandom& random) {
  using Pair = std::pair<string_view, string_view>;
  static constexpr std::array kCapitals = std::to_array<Pair>({{"France", "Paris"},
                                                               {"Italy", "Rome"},
                                                               {"Spain", "Madrid"},
                                                               {"Japan", "Tokyo"},
                                                               {"Egypt", "Cairo"},
                                                               {"Norway", "Oslo"},
                                                               {"Greece", "Athens"},
                                                               {"Poland", "Warsaw"},
                                                               {"Kenya", "Nairobi"},
                                                               {"Peru", "Lima"},
                                                               {"Cuba", "Havana"},
                                                               {"Austria", "Vienna"},
                                                               {"Ireland", "Dublin"},
                                                               {"Portugal", "Lisbon"},
                                                               {"Finland", "Helsinki"}});
  static constexpr std::array kOpposites = std::to_array<Pair>({{"hot", "cold"},
                                                                {"big", "small"},
                                                                {"fast", "slow"},
                                                                {"early", "late"},
                                                                {"old", "new"},
                                                                {"hard", "soft"},
                                                                {"light", "dark"},
                                                                {"high", "low"},
                                                                {"happy", "sad"},
                                                                {"open", "closed"},
                                                                {"empty", "full"},
                                                                {"rich", "poor"},
                                                                {"strong", "weak"},
                                                                {"wet", "dry"},
                                                                {"loud", "quiet"},
                                                                {"near", "far"}});
  static constexpr std::array kYoung = std::to_array<Pair>({{"dog", "puppy"},
                                                            {"cat", "kitten"},
                                                            {"cow", "calf"},
                                                            {"horse", "foal"},
                                                            {"sheep", "lamb"},
                                                            {"goose", "gosling"},
                                                            {"duck", "duckling"},
                                                            {"lion", "cub"},
                                                            {"frog", "tadpole"}});
  static constexpr std::array kCapitalAsk = std::to_array<string_view>(
      {"What is the capital of {}?", "Name the capital of {}.", "Which city is the capital of {}?"});
  static constexpr std::array kOppositeAsk = std::to_array<string_view>(
      {"What is the opposite of {}?", "Give the opposite of {}.", "Which word means the reverse of {}?"});
  static constexpr std::array kYoungAsk =
      std::to_array<string_view>({"What is a young {} called?", "Name the young of a {}."});
  switch (random.between(0, 2)) {
    case 0: {
      const Pair& fact = random.pick(kCapitals);
      return {fmt::format(fmt::runtime(random.pick(kCapitalAsk)), fact.first), "", std::string(fact.second)};
    }
    case 1: {
      Pair fact = random.pick(kOpposites);
      if (random.chance(50)) std::swap(fact.first, fact.second);
      return {fmt::format(fmt::runtime(random.pick(kOppositeAsk)), fact.first), "", std::string(fact.second)};
    }
    default: {
      const Pair& fact = random.pick(kYoung);
      return {fmt::format(fmt::runtime(random.pick(kYoungAsk)), fact.first), "", std::string(fact.second)};
    }
  }
}

Row make_list(TaskRandom& random) {
  struct Kind {
    string_view name;
    std::array<string_view, 8> items;
  };
  static constexpr std::array kKinds = std::to_array<Kind>(
      {{"fruits", {"apple", "pear", "plum", "cherry", "lemon", "orange", "grape", "fig"}},
       {"animals", {"dog", "cat", "horse", "tiger", "zebra", "mouse", "goat", "wolf"}},
       {"colours", {"red", "blue", "green", "yellow", "black", "white", "brown", "pink"}},
       {"tools", {"hammer", "saw", "drill", "file", "knife", "ladder", "pliers", "brush"}},
       {"things in a kitchen", {"pot", "pan", "spoon", "fork", "knife", "oven", "cup", "plate"}},
       {"sports", {"football", "tennis", "rowing", "running", "boxing", "golf", "hockey", "judo"}}});
  const Kind& kind = random.pick(kKinds);
  auto count = static_cast<std::size_t>(random.between(2, 6));
  Words items = sample(random, kind.items, count);
  if (random.chance(50))
    return {fmt::format("List {} {}.", count, kind.name), "", fmt::format("{}", fmt::join(items, ", "))};
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) out += fmt::format("{}{}. {}", i == 0 ? "" : "\n", i + 1, items[i]);
  return {fmt::format("Write a numbered list of {} {}.", count, kind.name), "", out};
}

Row grammar(TaskRandom& random) {
  using Forms = std::array<string_view, 3>;
  static constexpr std::array kVerbs = std::to_array<Forms>({{"go", "went", "gone"},
                                                             {"see", "saw", "seen"},
                                                             {"write", "wrote", "written"},
                                                             {"sing", "sang", "sung"},
                                                             {"take", "took", "taken"},
                                                             {"give", "gave", "given"},
                                                             {"walk", "walked", "walked"},
                                                             {"play", "played", "played"},
                                                             {"eat", "ate", "eaten"},
                                                             {"drive", "drove", "driven"},
                                                             {"know", "knew", "known"},
                                                             {"open", "opened", "opened"}});
  static constexpr std::array kPlaces =
      std::to_array<string_view>({"in the garden", "at school", "near the river", "in the evening", "with a friend",
                                  "on Monday", "after lunch", "every week"});
  const Forms& verb = random.pick(kVerbs);
  std::string_view name = random.pick(kNames), place = random.pick(kPlaces);
  if (random.chance(50)) {
    return {"Put the sentence into the past.", fmt::format("{} and I {} {}.", name, verb[0], place),
            fmt::format("{} and I {} {}.", name, verb[1], place)};
  }
  return {"Fill the gap.", fmt::format("{} has ___ ({}) {}.", name, verb[0], place),
          fmt::format("{} has {} {}.", name, verb[2], place)};
}

Row explain(TaskRandom& random) {
  struct Thing {
    string_view name, use, care;
  };
  static constexpr std::array kThings =
      std::to_array<Thing>({{"an umbrella", "it keeps the rain away", "let it dry before you fold it"},
                            {"a map", "it shows the way", "check that it is not too old"},
                            {"a lamp", "it gives light at night", "switch it off when you leave"},
                            {"a bicycle", "it is fast and needs no fuel", "pump up the tyres now and then"},
                            {"a clock", "it tells the time", "wind it up or change the battery"},
                            {"a bridge", "it leads over the river", "look for damage after a flood"},
                            {"a notebook", "it keeps ideas that would be lost", "write the date on each page"},
                            {"a coat", "it keeps you warm in winter", "brush it before you put it away"},
                            {"a garden", "it gives fruit and flowers", "water it in dry weather"},
                            {"a library", "it has more books than one can buy", "bring the books back in time"}});
  static constexpr std::array kWhere = std::to_array<string_view>(
      {"in the city", "in the mountains", "at sea", "at home", "on a journey", "in winter", "in summer", "at work"});
  static constexpr std::array kAlso =
      std::to_array<string_view>({"Many people have used one for years.", "It does not cost much.",
                                  "It is easy to learn how to use it.", "Some people share one with a friend.",
                                  "There are small ones and large ones.", "A good one lasts for a long time."});
  const Thing& thing = random.pick(kThings);
  std::string_view where = random.pick(kWhere);
  std::string out = fmt::format("People use {} {} because {}.", thing.name, where, thing.use);
  if (random.chance(60)) out += fmt::format(" It is wise to take care of it: {}.", thing.care);
  for (const std::string& more : sample(random, kAlso, static_cast<std::size_t>(random.between(0, 4))))
    out += " " + more;
  return {fmt::format("Explain why people use {} {}.", thing.name, where), random.chance(30) ? "Be brief." : "", out};
}

Row short_note(TaskRandom& random) {
  static constexpr std::array kTopics = std::to_array<string_view>(
      {"the party", "the meeting", "the trip", "the new book", "the broken chair", "the school play", "the dinner"});
  static constexpr std::array kOpen = std::to_array<string_view>(
      {"I hope you are well.", "Thank you for your letter.", "It was good to see you.", "I have some news."});
  static constexpr std::array kBody =
      std::to_array<string_view>({"We will need two tables and some chairs.", "Please bring bread and water.",
                                  "The train leaves early, so do not be late.", "My sister will come with us.",
                                  "There is room for one more friend.", "If it rains, we will stay in the house.",
                                  "I will call you in the evening.", "We can share the cost."});
  std::string_view to = random.pick(kNames), from = random.pick(kNames), topic = random.pick(kTopics),
                   day = random.pick(kDays);
  std::string out = fmt::format("Dear {},\n{} I am writing about {} on {}.", to, random.pick(kOpen), topic, day);
  for (const std::string& more : sample(random, kBody, static_cast<std::size_t>(random.between(1, 6))))
    out += " " + more;
  out += fmt::format("\nYours, {}", from);
  return {fmt::format("Write a note to {} about {}.", to, topic), fmt::format("day: {}, from: {}", day, from), out};
}

}  // namespace lockstep::train::tasks
