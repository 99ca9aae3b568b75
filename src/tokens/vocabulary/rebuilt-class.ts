/**
 * A tokenizer whose `tokenizer_config.json` calls it Llama's: for most types of models transformers 5.19.0 then builds Llama's sentencepiece
 * tokenizer of its vocabulary and does not look at the file's steps; of a byte-level one that loses every space. Which types have their file
 * read all the same was tried out, for all that it knows.
 */
import type { TokenizerConfigFile } from './tokenizer-file.js'

const typesWithFile: ReadonlySet<string> = new Set(
  `aria bigbird_pegasus canary chameleon cohere_asr deepseek_ocr2 deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 deepseek_vl
  deepseek_vl_hybrid ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2
  gpt_bigcode granite granitemoe granitemoehybrid granitemoeshared hyperclovax hyperclovax_vision_v2 jamba janus kimi_k25 kimi_linear
  kosmos-2 llava llava_next mimo_v2_flash minicpm3 minicpmv4_6 minicpmv4_7 minimax_m2 ministral ministral3 mistral mistral3 mixtral
  modernbert modernbert-decoder nemotron nystromformer olmo2 olmo3 olmo_hybrid paddleocr_vl pegasus_x persimmon phi3 phimoe pix2struct
  pixtral qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp smolvlm stablelm step3p5 umt5 vipllava voxtral voxtral_realtime
  xlm-roberta-xl EvollaModel`.split(/\s+/),
)

export function readsFile(modelConfig: unknown): boolean {
  return typesWithFile.has(typeOf(modelConfig) ?? '')
}

/** Why a byte-level tokenizer is not what its file says; undefined where it is, or where the model's type is not known. */
export function whyRebuilt(config: TokenizerConfigFile, modelConfig: unknown): string | undefined {
  if (!/^LlamaTokenizer(Fast)?$/.test(config.tokenizer_class ?? '')) return undefined
  const type = typeOf(modelConfig)
  if (type === undefined || readsFile(modelConfig)) return undefined
  return `engines take it for Llama's, as tokenizer_class says and model_type ${type} does not deny, and it is byte-level`
}

function typeOf(modelConfig: unknown): string | undefined {
  const type = (modelConfig as { readonly model_type?: unknown } | undefined | null)?.model_type
  return typeof type === 'string' && type !== '' ? type : undefined
}
