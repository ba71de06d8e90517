// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/generate.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <map>

#include "common/conversation/repetition.h"

namespace outrider {
namespace {

at::Tensor choose(const Llama& model, const at::Tensor& logits, double temperature,
                  at::Generator& generator) {
  if (temperature <= 0) return model.likeliest(logits);
  return at::multinomial(at::softmax(logits.to(at::kFloat) / temperature, -1), 1, false, generator)
      .squeeze(1);
}

// All prompts of one batch have the same length.
void generate_batch(const Llama& model, const std::vector<std::vector<TokenId>>& prompts,
                    std::span<const std::size_t> chosen, const GenerateOptions& options,
                    at::Generator& generator, std::vector<std::vector<TokenId>>& answers) {
  const auto rows = static_cast<std::int64_t>(chosen.size());
  const auto length = static_cast<std::int64_t>(prompts[chosen[0]].size());
  const std::int64_t room = model.longest() - length;
  const std::int64_t steps = std::min(options.max_tokens, room);
  if (steps < 1) return;
  at::Tensor ids = at::empty({rows, length}, at::kLong);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::vector<TokenId>& prompt = prompts[chosen[static_cast<std::size_t>(i)]];
    std::copy(prompt.begin(), prompt.end(), ids.data_ptr<std::int64_t>() + i * length);
  }
  DecodeCache cache(model.config(), model.compute(), rows, length + steps);
  std::vector<bool> ended(chosen.size(), false);
  for (std::int64_t step = 0; step < steps; ++step) {
    const at::Tensor next =
        choose(model, model.logits(model.decode(ids, cache)), options.temperature, generator);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto token = static_cast<TokenId>(next.data_ptr<std::int64_t>()[i]);
      std::vector<TokenId>& answer = answers[chosen[i]];
      if (ended[i]) continue;
      ended[i] = token == options.stop;
      if (!ended[i]) answer.push_back(token);
      // Looked at now and then: what repeats itself would run to the end of the context.
      if (step % 32 == 31) ended[i] = ended[i] || length_before_repetition(answer) < answer.size();
    }
    if (std::all_of(ended.begin(), ended.end(), [](bool done) { return done; })) break;
    ids = next.unsqueeze(1);
  }
}

}  // namespace

std::vector<std::vector<TokenId>> generate(const Llama& model,
                                           const std::vector<std::vector<TokenId>>& prompts,
                                           const GenerateOptions& options,
                                           const std::function<void(std::int64_t)>& on_progress) {
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  std::map<std::size_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < prompts.size(); ++i) by_length[prompts[i].size()].push_back(i);
  std::vector<std::vector<TokenId>> answers(prompts.size());
  std::int64_t done = 0;
  for (const auto& [length, all] : by_length) {
    if (length == 0) continue;
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t count =
          std::min(all.size() - begin, static_cast<std::size_t>(options.batch));
      generate_batch(model, prompts, std::span(all).subspan(begin, count), options, generator,
                     answers);
      begin += count;
      on_progress(done += static_cast<std::int64_t>(count));
    }
  }
  for (std::vector<TokenId>& answer : answers) answer.resize(length_before_repetition(answer));
  return answers;
}

}  // namespace outrider
