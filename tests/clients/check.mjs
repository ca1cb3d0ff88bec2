// Check the browser client against vectors.json: returns what did not agree. Runs in Node.js and in a browser alike.
const hex = bytes => Array.from(bytes, b => b.toString(16).padStart(2, '0')).join('');
const unhex = text => Uint8Array.from(text.match(/../g) ?? [], x => parseInt(x, 16));

export function memory() {
  const kept = new Map();
  return { getItem: name => kept.get(name) ?? null, setItem: (name, value) => void kept.set(name, value) };
}

function source(words) {
  let at = 0;
  return () => at < words.length ? words[at++] : 0;
}

async function refusal(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.message;
  }
}

export async function check(client, vectors) {
  const wrong = [], options = { now: new Date(vectors.now), origin: vectors.origin };
  let checked = 0;
  const agree = (found, expected, what) => {
    checked++;
    if (found !== expected) wrong.push(`${what}: ${found}, not ${expected}`);
  };
  for (const told of vectors.tasks) {
    const task = await client.readTask(told.envelope, vectors.key, options), name = task.task;
    agree(task.id, told.hash, `${name} hash`);
    for (const [value, words, report] of told.reports) {
      agree(hex(client.perturb(task.mechanism, task.k, value, source(words))), report, `${name} report of ${value}`);
    }
    for (const [value, report] of told.permanent ?? []) {
      const words = await client.keyedWords(unhex(told.secret), task, value);
      agree(hex(client.perturb(task.permanent, task.k, value, words)), report, `${name} permanent answer ${value}`);
    }
    for (const [permanent, words, report] of told.again ?? []) {
      agree(hex(client.again(task.mechanism, task.k, unhex(permanent), source(words))), report, `${name} second round`);
    }
    await lives(client, task, agree);
  }
  for (const [i, envelope] of vectors.refused.entries()) {
    agree(await refusal(client.readTask(envelope, vectors.key, options)) !== null, true, `refused envelope ${i}`);
  }
  for (const [n, m, claim, above] of vectors.reveals) {
    const [a, b] = claim.split('/'), [whole, part = ''] = a.split('.'), [digits, power = 0] = part.split('e');
    const scale = 10n ** BigInt(digits.length) * (a.includes('e') ? 10n ** BigInt(-(power || whole.split('e')[1])) : 1n);
    agree(client.reveals([BigInt(n), BigInt(m)], [BigInt(whole.split('e')[0] + digits), BigInt(b ?? 1) * scale]), above, `${n}/${m} at ${claim}`);
  }
  return { checked, wrong };
}

// A device charges, refuses above the cap, keeps its permanent answer, and repeats what was not acknowledged.
async function lives(client, task, agree) {
  const storage = memory(), name = task.task;
  const poor = new client.Client('0.01', storage);
  agree(await refusal(poor.report(task, 0)), 'above your cap; nothing sent', `${name} above the cap`);
  agree(storage.getItem('sordino'), null, `${name} refused and kept nothing`);
  const device = new client.Client(100, storage);
  const body = await device.report(task, 1);
  agree(hex(body.slice(0, 32)), task.id, `${name} begins with the manifest's hash`);
  agree(hex(await device.report(task, 0)), hex(body), `${name} repeats what was not acknowledged`);
  const state = () => JSON.parse(storage.getItem('sordino'));
  const cost = task.permanent ? task.lifetime_epsilon : task.epsilon;
  agree(JSON.stringify(state().charges.map(c => c[4])), JSON.stringify([cost]), `${name} was charged once`);
  storage.setItem('sordino', JSON.stringify({ ...state(), unsent: {} }));
  const next = await device.report(task, 0);
  agree(hex(next.slice(32, 48)) !== hex(body.slice(32, 48)), true, `${name} has a new report id`);
  agree(state().charges.length, task.permanent ? 1 : 2, `${name} charges a later report`);
  storage.setItem('sordino', JSON.stringify({ ...state(), unsent: {} }));
  agree(await refusal(device.report({ ...task, id: 'other' }, 0)), 'the task changed', `${name} changed within its epoch`);
  agree(await refusal(new client.Client(1e-3, memory()).report(task, 0)), 'above your cap; nothing sent', `${name} cap as 0.001`);
  if (!task.permanent) {
    for (let i = state().charges.length; i < 100; i++) {
      if (await refusal(device.report(task, 0))) break;
      storage.setItem('sordino', JSON.stringify({ ...state(), unsent: {} }));
    }
    const [n, d] = device.spent(), [a, b = 1] = task.epsilon.split('/');
    agree(Number(n) / Number(d) <= 10 && state().charges.length === Math.min(100, Math.floor(10 / (a / b) + 1e-9)), true,
      `${name} stops at its own limit`);
  }
}
