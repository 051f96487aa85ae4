/**
 * Log in: a token becomes a session cookie that scripts cannot read. The token is not kept.
 */
import { Button } from "../components/basics.js";
import { ThemeSwitch } from "../components/controls.js";
import { TextField } from "../components/forms.js";
import { login } from "../lib/api.js";
import { sentence } from "../lib/errors.js";
import { useEffect, useRef, useState, html } from "../lib/ui.js";
import { Logo } from "../components/logo.js";

export function Login() {
  const [token, setToken] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {string | null} */ (null));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useEffect(() => {
    document.title = "Log in · Queen";
    form.current?.querySelector("input")?.focus();
  }, []);
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await login(token.trim());
    } catch (failure) {
      setError(sentence(failure));
      setBusy(false);
    }
  };
  return html`<main class="login" id="main">
    <form class="card login-card" ref=${form} onSubmit=${submit}>
      <${Logo} />
      <h1>Log in</h1>
      <p class="muted">This broker asks for a token: an API token or a JWT of your identity provider.</p>
      <${TextField} label="Token" type="password" mono value=${token} onChange=${setToken} error=${error}
        hint="queen tokens create prints one. It is exchanged for a session and not kept." autocomplete="off" required />
      <${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${token.trim() === ""}>Log in</${Button}>
    </form>
    <${ThemeSwitch} />
  </main>`;
}
