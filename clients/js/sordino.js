// Sordino's browser client: checks a signed task, randomises an answer on the device, keeps a ledger of what it revealed.
// It needs crypto.subtle: https, or localhost. Probabilities are thresholds T: heads if a 32-bit word is below T.
const Int = BigInt, Bytes = Uint8Array, F = 2 ** 32, utf8 = s => new TextEncoder().encode(s),
  hex = b => Array.from(b, x => x.toString(16).padStart(2, '0')).join(''),
  un64 = s => Bytes.from(atob(s), c => c.charCodeAt(0)),
  subtle = crypto.subtle, imported = (raw, kind, use) => subtle.importKey('raw', raw, kind, false, [use]),
  need = (ok, why) => { if (!ok) throw new Error(why); },
  whole = (t, from, below) => Number.isInteger(t) && t >= from && t < below,
  little = (n, size) => Bytes.from({ length: size }, (_, i) => n >>> 8 * i);

// Epsilons are exact: a decimal or "a/b" as two BigInts.
function fraction(text) {
  const [, n, d, e = 0, q = 1] = /^(\d+)\.?(\d*)(?:e-(\d\d?))?(?:\/(\d+))?$/.exec(text) ?? [];
  need(n && +q && text.length < 99, 'bad epsilon');
  return [Int(n + d), Int(q) * 10n ** Int(+e + d.length)];
}
const above = ([a, b], [c, d]) => a * d > c * b,
  plus = ([a, b], [c, d]) => [a * d + c * b, b * d];

// ln(n/m) > a/b, for sure or nearly: exp's series, each term rounded down at 256 bits.
export function reveals([n, m], [a, b]) {
  let sum = 0n, term = 1n << 256n;
  for (let i = 1n; term; i++) { sum += term; term = term * a / (b * i); }
  return n << 256n > m * sum;
}

// p, q over a common denominator; then both rounds as one; then the largest ratio of a report's probabilities.
const law = (m, k) => m.kind == 'unary' ? [Int(m.p), Int(m.q), Int(F)]
    : m.ratio ? [Int(F) ** 2n, Int(m.ratio) ** 2n]
    : [Int(m.p) * Int(k - 1), Int(F - m.p), Int(F) * Int(k - 1)],
  twice = ([p, q, d], [r, s, e]) => [p * r + (d - p) * s, q * r + (d - q) * s, d * e],
  ratio = (kind, [p, q, d]) => kind == 'unary' ? [p * (d - q), (d - p) * q] : [p, q],
  // Noisy numbers are clipped where noise hardly ever reaches: in 1 byte, else in 2.
  beyond = (m, limit) => (m.ratio / F) ** limit > 1e-12, bytes = m => beyond(m, 127) ? 2 : 1;

function checked(m, k) {
  const { kind, g } = m, coin = t => whole(t, 1, F), noise = kind == 'histogram';
  need((kind == 'grr' || kind == 'unary' && coin(m.q) || kind == 'olh' && g === 2 || noise && !beyond(m, 32767))
    && coin(noise ? m.ratio : m.p) && noise == 'ratio' in m && (kind == 'olh') == 'g' in m && m.k === k && m.bits === 32, 'unknown protocol');
  const l = law(m, g ?? k);
  need(l[0] > l[1], 'p must be above q');
  return l;
}

// Read a signed manifest; key: the base64 public key it must be signed with. Throws where anything does not hold.
export async function readTask(envelope, key, { now = new Date(), origin = globalThis.location?.origin } = {}) {
  const bytes = utf8(envelope.manifest);
  need(envelope.key === key, 'signed by another key');
  const signer = await imported(un64(key), 'Ed25519', 'verify');
  need(await subtle.verify('Ed25519', signer, un64(envelope.signature), bytes), 'bad signature');
  const m = JSON.parse(envelope.manifest), k = m.labels.length, once = m.mechanism, ever = m.permanent;
  need(m.schema === 1 && k > 1, 'unknown schema');
  need(new Date(m.expires) > now, 'the task has expired');
  need(!origin || m.origin === origin, 'a task of another site');
  const honest = (l, epsilon) => need(!reveals(ratio(once.kind, l), fraction(epsilon)), 'epsilon is understated');
  let l = checked(once, k);
  if (ever) {
    need(ever.kind == once.kind && !once.g && !once.ratio, 'the rounds differ');
    const first = checked(ever, k);
    honest(first, m.lifetime_epsilon);
    l = twice(first, l);
  }
  honest(l, m.epsilon);
  const hash = new Bytes(await subtle.digest('SHA-256', bytes));
  return { ...m, k, key, hash, id: hex(hash) };
}

const bits = (k, heads) => {
  const out = new Bytes(k + 7 >> 3);
  for (let j = 0; j < k; j++) if (heads(j)) out[j >> 3] |= 1 << (j & 7);
  return out;
};

// v of 0 .. n - 1, or with probability 1 - p another of them.
function mixed(m, n, v, next) {
  if (next() < m.p) return v;
  let w;
  do w = next(); while (w >= F - F % (n - 1));
  w %= n - 1;
  return w < v ? w : w + 1;
}

// A random hash function of the label's bits onto one bit, and its value there, mixed.
function hashed(m, k, v, next) {
  let n = 0, y = 0, i = 0;
  for (; 2 ** i < k; i++) {
    const a = next() & 1;
    n += n + a;
    y ^= a & v >> i;
  }
  y = v === null ? next() & 1 : mixed(m, 2, y, next);
  return little(n + y * 2 ** i, i + 8 >> 3);
}

// 1 for the label, 0 for every other, each with the difference of two geometric numbers.
function noisy(m, k, v, next) {
  const most = 2 ** (8 * bytes(m) - 1) - 1, out = [], heads = () => {
    let n = 0;
    while (next() < m.ratio) n++;
    return n;
  };
  for (let j = 0; j < k; j++) {
    const y = (j === v) + heads() - heads();
    out.push(...little(Math.max(1 - most, Math.min(most, y)) + most - 1, bytes(m)));
  }
  return Bytes.from(out);
}

// One report of label number v (null: missing, not of grr), from a source of 32-bit words.
export function perturb(m, k, v, next) {
  const { kind } = m;
  need(v === null ? kind != 'grr' : whole(v, 0, k), 'no such label');
  return kind == 'unary' ? bits(k, j => next() < (j === v ? m.p : m.q)) : m.g ? hashed(m, k, v, next)
    : m.ratio ? noisy(m, k, v, next) : little(mixed(m, k, v, next), k <= 256 ? 1 : k <= 65536 ? 2 : 4);
}

// A report randomised once more: the second round.
export function again(m, k, report, next) {
  if (m.kind == 'grr') return perturb(m, k, report.reduceRight((n, b) => n * 256 + b, 0), next);
  return bits(k, j => next() < (report[j >> 3] >> (j & 7) & 1 ? m.p : m.q));
}

// Words for the permanent answer v: AES-256-CTR keyed by HMAC-SHA256 of the task and v under the device's secret, so that
// two answers (storage was put back) never share their words.
export async function keyedWords(secret, task, v) {
  const named = utf8('sordino permanent 2' + JSON.stringify([task.key, task.task, task.epoch, task.id, v]));
  const mac = await subtle.sign('HMAC', await imported(secret, { name: 'HMAC', hash: 'SHA-256' }, 'sign'), named);
  const stream = { name: 'AES-CTR', counter: new Bytes(16), length: 128 }, zeros = new Bytes(4 * task.k + 1024);
  const words = new DataView(await subtle.encrypt(stream, await imported(mac, 'AES-CTR', 'encrypt'), zeros));
  let at = -4;
  return () => words.getUint32(at += 4, true);
}
const random = n => crypto.getRandomValues(new Bytes(n)),
  fresh = () => new Uint32Array(random(4).buffer)[0];

// A person's device: secret, permanent answers and charges, in the browser's storage, and gone when that is cleared.
export class Client {
  constructor(cap, storage = localStorage) { this.cap = fraction(cap + ''); this.storage = storage; }
  state() { return JSON.parse(this.storage.getItem('sordino')) ?? { secret: [...random(32)], charges: [], unsent: {} }; }
  save(state) { this.storage.setItem('sordino', JSON.stringify(state)); }
  spent(charges = this.state().charges) { return charges.reduce((sum, c) => plus(sum, fraction(c[4])), [0n, 1n]); }

  // The body to post; v: the label's number. Charged first. What was not acknowledged comes again, as it was.
  report(task, v) {
    const make = () => this.made(task, v);
    return globalThis.navigator?.locks?.request('sordino', make) ?? make();
  }
  async made(task, v) {
    const { k, key, epoch, id, permanent } = task, state = this.state();
    if (state.unsent[id]) return Bytes.from(state.unsent[id]);
    const mine = state.charges.filter(c => c[0] == key && c[1] == task.task && c[2] == epoch);
    need(mine.every(c => c[3] == id), 'the task changed');
    let kept = permanent && mine[0]?.[5];
    if (!kept) {
      const cost = permanent ? task.lifetime_epsilon : task.epsilon;
      const over = (charges, cap) => above(plus(this.spent(charges), fraction(cost)), cap);
      need(!over(mine, fraction(task.lifetime_epsilon)), 'this task may ask no more');
      need(!over(state.charges, this.cap), 'above your cap; nothing sent');
      if (permanent) kept = [...perturb(permanent, k, v, await keyedWords(Bytes.from(state.secret), task, v))];
      state.charges.push([key, task.task, epoch, id, cost, kept]);
    }
    const report = (permanent ? again : perturb)(task.mechanism, k, permanent ? kept : v, fresh);
    const body = Bytes.of(...task.hash, ...random(16), ...report);
    state.unsent[id] = [...body];
    this.save(state);
    return body;
  }

  // Post a body; 409 says that it came before, which is as good.
  async submit(task, body, token) {
    const headers = token ? { authorization: 'Bearer ' + token } : {}, url = `${task.origin}/v1/tasks/${task.task}/reports`;
    const got = await fetch(url, { method: 'POST', body, headers, credentials: 'omit' });
    need(got.ok || got.status == 409, 'not accepted: ' + await got.text());
    const state = this.state();
    delete state.unsent[task.id];
    this.save(state);
  }
}
