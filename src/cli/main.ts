#!/usr/bin/env node
/** `warmroute`: one file per command; this one only chooses. */
console.log('warmroute is being built: the core library exists, the gateway does not yet.')
console.log('Run `npm run bench` to see what the index and the hash kernel do on this machine.')
