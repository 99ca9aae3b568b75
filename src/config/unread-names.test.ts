import { expect, it } from 'vitest'
import { groups } from './groups.js'
import { loadConfig } from './load.js'
import { nameOptions } from './names.js'
import { unreadNames, unreadReason } from './unread-names.js'

it('none of the names that are not read is a setting after all', () => {
  const read = nameOptions(Object.values(groups)).all.flatMap(({ option }) => option.extras.env ?? [])
  expect(read.length).toBeGreaterThan(50)
  expect(read.filter((name) => unreadReason(name) !== undefined)).toEqual([])
  expect(Object.keys(unreadNames).every((name) => name.startsWith('DYN_'))).toBe(true)
})

it('one that is set is named with the reason, by itself or by how it begins; one that is empty is not', () => {
  const env = {
    DYN_METADATA_HEADER: 'x-',
    DYN_MIGRATION_LIMIT: '3',
    DYN_NAMESPACE: ' ',
    DYN_ROUTER_TEMPERATURE: '0.5',
    PATH: '/',
  }
  expect(loadConfig(groups, { env }).warnings).toEqual([
    'DYN_METADATA_HEADER is not read: metadata headers begin with x-dynamo-meta-',
    'DYN_MIGRATION_LIMIT is not read: a request moves to another worker before its first byte, once; an answer that began is not gone on with elsewhere',
  ])
})

it('settings that the reasons name are settings', () => {
  const keys = new Set(nameOptions(Object.values(groups)).all.map(({ key }) => key))
  const named = Object.values(unreadNames).flatMap((why) => why.match(/server\.\w+/g) ?? [])
  expect(named.length).toBeGreaterThan(3)
  expect(named.filter((key) => !keys.has(key))).toEqual([])
})
