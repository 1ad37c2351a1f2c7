/**
 * A process to kill: argv[2] is the journals' folder, argv[3] its name. It meters requests forever; prints each one whose progress was
 * reported as written, after a plus, and each whose end was; and passes batches to its parent, which answers for Usage. Told to finish, it
 * meters no more and ends once everything that any process left behind is stored.
 */
import { writeSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { systemClock } from '#shared/clock.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { openJournal } from '../../../services/models/metering/journal.ts';
import { type MeteredEvent, meteredEventCodec } from '../../../services/models/metering/metered-event.ts';
import { adoptOrphans } from '../../../services/models/metering/orphans.ts';
import { createShipper } from '../../../services/models/metering/shipper.ts';
import { silentLogger as logger } from '../silent-logger.ts';
import { eventOf } from './truth.ts';

const directory = process.argv[2]!;
const name = process.argv[3]!;
const clock = systemClock;

const answers = new Map<number, PromiseWithResolvers<void>>();
let calls = 0;
let adopted = 0;
let isFinishing = false;
process.on('message', (message: { call: number; stored: boolean } | 'finish') => {
  if (message === 'finish') {
    isFinishing = true;
    return;
  }
  const answer = answers.get(message.call);
  if (message.stored) answer?.resolve();
  else answer?.reject(new Error('Usage did not answer'));
});

const journal = openJournal({
  directory,
  codec: meteredEventCodec,
  clock,
  logger,
  segmentBytes: 32_768,
  onFatal(error) {
    throw error;
  },
});
const shipper = createShipper<MeteredEvent>({
  journal,
  async record(events) {
    const call = calls++;
    const answer = Promise.withResolvers<void>();
    answers.set(call, answer);
    process.send!({ call, events });
    await answer.promise.finally(() => answers.delete(call));
    return [];
  },
  logger,
});
const failures = new RepeatedFailures('taking over journals', logger);
for (const orphan of adoptOrphans({ directory, codec: meteredEventCodec, clock, logger, failures })) {
  adopted += 1;
  const { release } = orphan;
  shipper.adopt({
    ...orphan,
    release() {
      adopted -= 1;
      release();
    },
  });
}

// A process that is killed writes nothing at its end, and the next life would have to compile everything anew.
flushCompileCache();

let number = 0;
function meterSome(): void {
  for (let count = 0; count < 4; count += 1) {
    number += 1;
    const event = eventOf(`${name}-${number}`);
    const { requestId, outputTokens } = event;
    journal.begin(event.id, { ...event, success: false, outputTokens: 0, costNanoUsd: 0n });
    const progress = { outputTokens: Math.floor(outputTokens / 2), costNanoUsd: '0' };
    journal.progress(event.id, progress, () => void writeSync(1, `+${requestId}\n`));
    // Every eighth request stays open, like one whose stream the kill cuts off.
    if (number % 8 !== 0) journal.end(event.id, event, () => void writeSync(1, `${requestId}\n`));
  }
}

function turn(): void {
  if (!isFinishing) {
    meterSome();
    setTimeout(turn, 2);
  } else if (adopted > 0 || journal.stats().pendingEvents > 0) {
    setTimeout(turn, 10);
  } else {
    process.disconnect!();
    void shipper.close(1_000).then(() => journal.close());
  }
}
turn();
