// The survey page: shows what a report says before it is sent. The true answer never leaves this page.
import { Client, readTask } from '/page/sordino.js';

const at = id => document.getElementById(id);
const root = at('survey');
const hex = bytes => Array.from(bytes, b => b.toString(16).padStart(2, '0')).join(' ');
const token = new URLSearchParams(location.hash.slice(1)).get('token');
let task, device, body;

function tell(words, bad = false) {
  at('status').textContent = words;
  at('status').classList.toggle('bad', bad);
}

const named = label => label === null ? 'no answer' : String(label);

// What a report says, in words: the labels it supports, or its numbers.
function says(report) {
  const { kind } = task.mechanism;
  if (kind === 'olh') return 'It says, of a random half of the answers or so, that yours is among them; chance decided whether it is.';
  if (kind === 'histogram') {
    const each = task.labels.map((label, j) => {
      const sent = report.length > task.labels.length ? report[2 * j] + 256 * report[2 * j + 1] - 32766 : report[j] - 126;
      return `${sent} for ${named(label)}`;
    });
    return `It says ${each.join(', ')}: 1 for your answer, 0 for all others, and noise on each.`;
  }
  if (kind === 'grr') {
    const number = report.reduceRight((n, b) => n * 256 + b, 0);
    return `It says “${named(task.labels[number])}”, which may or may not be your answer: chance decided.`;
  }
  const yes = task.labels.filter((_, j) => report[j >> 3] >> (j & 7) & 1).map(named);
  const few = yes.length < 2 ? yes.join('') : `${yes.slice(0, -1).join(', ')} and ${yes.at(-1)}`;
  const said = yes.length === task.labels.length ? 'yes to every answer' : yes.length ? `yes to ${few}, and no to all others` : 'no to every answer';
  return `It says ${said}; chance decided each of them.`;
}

function shown() {
  at('says').textContent = says(body.slice(48));
  at('hash').textContent = hex(body.slice(0, 32));
  at('id').textContent = hex(body.slice(32, 48));
  at('report').textContent = hex(body.slice(48));
  at('shown').hidden = false;
  at('send').disabled = false;
}

function spent() {
  const [n, d] = device.spent();
  at('spent').textContent = Number(n) / Number(d);
}

// What the owner must allow for one more answer: what was revealed so far, and what this survey asks for.
function needed() {
  const [n, d] = device.spent(), asked = task.permanent ? task.lifetime_epsilon : task.epsilon, [over, under] = asked.split('/');
  return Number(n) / Number(d) + Number(over) / Number(under ?? 1);
}

// A refusal of the collector in its own words, without the JSON around them.
function plainly(message) {
  const start = message.indexOf('{');
  try {
    return start < 0 ? message : JSON.parse(message.slice(start)).error.says;
  } catch {
    return message;
  }
}

// Why the collector would refuse this link's token, in words; null where it would accept it. Asked before anything is
// mixed or charged. A collector that does not say is asked again by the report itself.
async function tokenRefusal() {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`/v1/tasks/${root.dataset.task}/token`, { headers, credentials: 'omit' });
  const found = answer.ok ? await answer.json() : { accepted: true };
  if (found.accepted) return null;
  if (found.code === 'used') return 'This link was used already: it has sent all the answers that it may send. Nothing was mixed or sent.';
  const whose = found.code === 'wrong_role' ? "The link holds an administrator's token, which sends no answers."
    : token ? 'This survey does not know the token in your link: it may be cut short, or of another survey.'
      : 'Your link holds no token, and this survey takes answers by personal links only.';
  return `${whose} Ask whoever invited you for your own link, and open it whole. Nothing was mixed or sent.`;
}

// Whether this browser holds a charge for the task and nothing that waits to be sent.
function answered() {
  const { charges, unsent } = new Client(0).state();
  return charges.some(charge => charge[3] === task.id) && !unsent[task.id];
}

at('form').addEventListener('submit', async event => {
  event.preventDefault();
  const chosen = document.querySelector('input[name=answer]:checked');
  if (!chosen) return tell('Choose an answer first.', true);
  try {
    device = new Client(at('cap').value);
    body = await device.report(task, Number(chosen.value));
    spent();
    shown();
    tell('');
  } catch (error) {
    at('shown').hidden = true;
    const over = error.message.startsWith('above your cap');
    tell(over ? `Nothing was sent: above your cap. To answer, allow ${needed()} or more above; or leave it.`
      : `Nothing was sent: ${error.message}.`, true);
  }
});

at('send').addEventListener('click', async () => {
  at('send').disabled = true;
  try {
    await device.submit(task, body, token);
    tell('Sent, and stored. Thank you.');
  } catch (error) {
    at('send').disabled = false;
    tell(`Not stored yet: ${plainly(error.message)}. The same bytes can be sent again.`, true);
  }
});

try {
  if (!isSecureContext) throw new Error('browsers randomise on https pages only');
  const answer = await fetch(`/v1/tasks/${root.dataset.task}`, { credentials: 'omit' });
  task = await readTask(await answer.json(), root.dataset.key);
  task.labels.forEach((label, number) => {
    const line = document.createElement('label'), radio = document.createElement('input');
    Object.assign(radio, { type: 'radio', name: 'answer', value: number });
    line.append(radio, ' ', named(label));
    at('labels').append(line);
  });
  device = new Client(0);
  spent();
  const refusal = await tokenRefusal();
  at('form').hidden = refusal !== null;
  if (refusal) tell(refusal, true);
  else if (answered()) tell('You have answered this survey on this device. Another answer is another report.');
} catch (error) {
  tell(`This survey does not hold what it promises, so your device will not answer it: ${error.message}.`, true);
}
