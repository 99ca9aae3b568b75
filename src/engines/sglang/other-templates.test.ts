// Goal: an SGLang that builds prompts by another template than the model's is known by what it tells of itself.
// Method: the paths that `get_conv_template_by_model_path` of SGLang 0.5.23 has a name for, and others; settings as `/server_info` tells them.
import { expect, it } from 'vitest'
import { otherTemplatesOf } from './other-templates.js'

it.each([
  ['lmsys/vicuna-7b-v1.5', 'vicuna'],
  ['liuhaotian/llava-v1.5-7b', 'llava-v1.5'],
  ['lmms-lab/LLaVA-NeXT-Video-7B', 'LLaVA-NeXT-Video-7B'],
  ['lmms-lab/llava-onevision-qwen2-7b-ov', 'llava-onevision-qwen2'],
  ['OpenGVLab/InternVL2_5-8B', 'InternVL'],
  ['deepseek-ai/Janus-Pro-7B', 'Janus'],
  ['deepseek-ai/deepseek-vl2-small', 'deepseek-ai/deepseek-vl2'],
  ['openbmb/MiniCPM-V-2_6', 'MiniCPM-V'],
  ['openbmb/MiniCPM-o-2_6', 'MiniCPM-o'],
  ['microsoft/Phi-4-multimodal-instruct', 'Phi-4-multimodal'],
  ['deepseek-ai/DeepSeek-OCR', 'DeepSeek-OCR'],
  ['PaddlePaddle/PaddleOCR-VL', 'PaddleOCR'],
  ['openai/whisper-large-v3', 'whisper'],
  ['tencent/POINTS-Reader', 'POINTS'],
  ['/models/moss-1/vl', 'moss-1/vl'],
  ['/models/unlimited/llama', 'unlimited'],
])('%s has a template for %s', (path, word) => {
  const chats = `it has a template of its own for models with ${word} in their path`
  expect(otherTemplatesOf({ model_path: path, chat_template: null, tokenizer_path: '/other' })).toEqual({ chats })
})

it.each([
  'Qwen/Qwen3-8B',
  '/models/checkpoints/llama-3', // no word of its own
  'openbmb/MiniCPM-V-4_6',
  'openbmb/MiniCPM-V-4.7',
  'openbmb/MiniCPM4-8B',
  'llava-hf/llava-1.5-7b-hf',
  'lmms-lab/llava-v1.6-7b',
])('%s has none', (path) => {
  const untold = { chat_template: null, hf_chat_template_name: null, completion_template: null }
  expect(otherTemplatesOf({ model_path: path, ...untold, default_chat_template_kwargs: {} })).toEqual({})
})

it.each([
  [{ chat_template: 'chatml' }, { chats: 'it was started with --chat-template' }],
  [{ hf_chat_template_name: 'tool_use' }, { chats: 'it was started with --hf-chat-template-name' }],
  [
    { default_chat_template_kwargs: { enable_thinking: false } },
    { chats: 'it was started with --default-chat-template-kwargs' },
  ],
  [
    { default_chat_template_kwargs: '{"enable_thinking": false}' },
    { chats: 'it was started with --default-chat-template-kwargs' },
  ],
  [{ default_chat_template_kwargs: '{ }', reasoning_parser: 'qwen3' }, {}],
  [{ reasoning_parser: 'hunyuan' }, { chats: 'its reasoning parser gives every chat an effort' }],
  [{ completion_template: 'star_coder' }, { texts: 'it was started with --completion-template' }],
])('%j', (settings, wanted) => {
  expect(otherTemplatesOf({ model_path: 'Qwen/Qwen3-8B', ...settings })).toEqual(wanted)
})
