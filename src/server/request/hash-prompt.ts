/** Block hashes of a prompt, where whoever made its tokens makes them cheaper than the router would. */
import type { PromptHashes } from '../../routing/index.js'
import type { Prepared } from './prepare.js'
import type { EncodedPrompt, PromptTokens } from './prompt.js'

/** Of a long prompt, before `hashesOf`: in slices. */
export async function hashAhead({ model, hints, loraName }: Prepared, prompt: PromptTokens): Promise<void> {
  if (prompt.hashAhead) await model.hashAhead(prompt.hashAhead, hints.cacheSalt, loraName)
}

export function hashesOf(
  { model, hints, loraName }: Prepared,
  prompt: PromptTokens | undefined,
): PromptHashes | undefined {
  return prompt?.hash && model.hashesOf(prompt.hash, hints.cacheSalt, loraName)
}

/** Both for what other engines make of it. */
export async function withHashes(prepared: Prepared, prompt: PromptTokens): Promise<PromptTokens> {
  const encodings: EncodedPrompt[] = []
  for (const it of prompt.encodings ?? []) {
    if (it.prompt) await hashAhead(prepared, it.prompt)
    encodings.push({ ...it, hashes: hashesOf(prepared, it.prompt) })
  }
  return { ...prompt, encodings }
}
