/** The synchronous decision: hashes, caches and loads in; picked, parked or refused out, with the booking made. */
export type { Receipt, ReceiptExclusion, ReceiptRow } from './receipt.js'
