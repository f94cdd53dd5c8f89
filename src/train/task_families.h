// Task families of the embedded data: each makes one row. Internal to embedded_tasks.
//
// A family draws at most once per statement: compilers may evaluate operands and arguments in any order, and the rows
// must not depend on which.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/embedded_tasks.h"

namespace lockstep::train::tasks {

using Words = std::vector<std::string>;

inline constexpr std::array kNames = std::to_array<std::string_view>(
    {"Anna", "Ben", "Cara", "David", "Eva", "Felix", "Grace", "Hugo", "Ida", "Jonas", "Kira", "Leo"});
inline constexpr std::array kDays =
    std::to_array<std::string_view>({"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"});

// `count` different items, in random order.
template <class Items>
Words sample(TaskRandom& random, const Items& items, std::size_t count) {
  Words out;
  while (out.size() < count) {
    std::string word(random.pick(items));
    if (std::find(out.begin(), out.end(), word) == out.end()) out.push_back(std::move(word));
  }
  return out;
}

// One right answer that follows from the question (task_puzzles.cc).
Row arithmetic(TaskRandom& random);
Row sort_words(TaskRandom& random);
Row sort_numbers(TaskRandom& random);
Row reverse_text(TaskRandom& random);
Row convert_units(TaskRandom& random);
Row count_things(TaskRandom& random);
Row edit_text(TaskRandom& random);
Row dates(TaskRandom& random);
Row compare(TaskRandom& random);
Row logic(TaskRandom& random);
Row sequence(TaskRandom& random);

// Knowledge and free text, longer answers (task_texts.cc).
Row look_up(TaskRandom& random);
Row make_list(TaskRandom& random);
Row grammar(TaskRandom& random);
Row explain(TaskRandom& random);
Row short_note(TaskRandom& random);

}  // namespace lockstep::train::tasks
