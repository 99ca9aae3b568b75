import { expect, it } from 'vitest'
import { PrefillRendezvous } from './rendezvous.js'

function meet(): { rendezvous: PrefillRendezvous<string>; told: string[]; tell: (endpoint: string) => void } {
  const told: string[] = []
  return { rendezvous: new PrefillRendezvous<string>(), told, tell: (endpoint) => void told.push(endpoint) }
}

it('tells a waiting decode side when prefill appears', () => {
  const { rendezvous, told, tell } = meet()
  expect(rendezvous.registerDecode('m', 'ns', tell)).toBe(true)
  expect(rendezvous.registerPrefill('m', 'ns', 'p1')).toBe(true)
  expect(told).toEqual(['p1'])
})

it('keeps the endpoint of a prefill side that came first, the newest one', () => {
  const { rendezvous, told, tell } = meet()
  rendezvous.registerPrefill('m', 'ns', 'p1')
  rendezvous.registerPrefill('m', 'ns', 'p2')
  expect(rendezvous.registerDecode('m', 'ns', tell)).toBe(true)
  expect(told).toEqual(['p2'])
})

it('gives nothing to a second decode side', () => {
  const { rendezvous, told, tell } = meet()
  rendezvous.registerDecode('m', 'ns', tell)
  expect(rendezvous.registerDecode('m', 'ns', tell)).toBe(false)
  rendezvous.registerPrefill('m', 'ns', 'p1')
  expect(rendezvous.registerDecode('m', 'ns', tell)).toBe(false)
  expect(told).toEqual(['p1'])
})

it('keeps models and namespaces apart', () => {
  const { rendezvous, told, tell } = meet()
  rendezvous.registerDecode('m', 'ns', tell)
  for (const [model, namespace] of [
    ['m', 'other'],
    ['other', 'ns'],
    ['m:ns', ''],
    ['', 'm:ns'],
  ] as const) {
    expect(rendezvous.registerPrefill(model, namespace, 'x')).toBe(false)
  }
  expect(told).toEqual([])
})

it('lets a decode side register again after it was removed', () => {
  const { rendezvous, told, tell } = meet()
  rendezvous.registerDecode('m', 'ns', tell)
  rendezvous.removeDecode('m', 'ns')
  expect(rendezvous.registerPrefill('m', 'ns', 'p1')).toBe(false)
  expect(rendezvous.registerDecode('m', 'ns', tell)).toBe(true)
  expect(told).toEqual(['p1'])
})

it('removing a decode side does not lose a prefill side that waits, and the other way round', () => {
  const { rendezvous, told, tell } = meet()
  rendezvous.registerPrefill('m', 'ns', 'p1')
  rendezvous.removeDecode('m', 'ns')
  rendezvous.registerDecode('m', 'ns', tell)
  expect(told).toEqual(['p1'])
  rendezvous.registerDecode('n', 'ns', tell)
  rendezvous.removePrefill('n', 'ns')
  rendezvous.registerPrefill('n', 'ns', 'p2')
  expect(told).toEqual(['p1', 'p2'])
})
